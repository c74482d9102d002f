endpoint     = "tcp://192.0.2.1:2376"
extra_labels = ["job_name", "task*"]

auth {
  config = "/etc/docker/config.json"
  helper = "ecr-login"
}

tls {
  cert = "/tls/cert.pem"
  key  = "/tls/key.pem"
  ca   = "/tls/ca.pem"
}

logging {
  type = "journald"
  config {
    tag = "x"
  }
}

gc {
  image       = false
  image_delay = "7m"
  image_scope = "managed"
  container   = false

  dangling_containers {
    enabled        = false
    period         = "8m"
    creation_grace = "9m"
    dry_run        = true
  }
}

volumes {
  enabled      = true
  selinuxlabel = "z"
}

allow_privileged         = true
allow_caps               = ["CAP_CHOWN", "net_raw", "Kill"]
nvidia_runtime           = "nvidia-old"
allow_runtimes           = ["runc", "kata"]
infra_image              = "https://example.org/pause:1"
infra_image_pull_timeout = "11m"
pull_activity_timeout    = "12m"
pids_limit               = 13
disable_log_collection   = true
compat_labels            = true
initiate_network         = false
api_timeout              = "14s"
engine_down_grace        = "15m"

windows_allow_insecure_container_admin = true

logs {
  collector     = "driver"
  max_files     = 16
  max_file_size = 17
}

gpu {
  driver_root       = "/run/nvidia/driver"
  nvml_library      = "/opt/libnvidia-ml.so.1"
  volume_mode       = "bind"
  volumes_path      = "/srv/volumes"
  volume_socket_dir = "/srv/plugins"
  volume_files      = "copy"
  job_mapping_dir   = "/run/jobs"
  inject_health     = ["GPU-1:79"]
  health {
    xid_ignore = ["74"]
    xid_fatal  = ["13"]
  }
  capabilities      = ["compute", "utility"]
  api_address       = ""
  requirements      = "warn"
  allow_override    = false
  injection         = "cdi"

  defaults {
    shm_size = 18
    ipc_mode = "host"
    init     = true
    ulimit {
      memlock = "-1"
    }
  }
}
