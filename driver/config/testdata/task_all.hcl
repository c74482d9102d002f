image              = "https://example.org/app:1"
image_pull_timeout = "7m"
force_pull         = true
load               = "app.tar"
auth {
  username       = "u"
  password       = "p"
  email          = "e"
  server_address = "s"
}
auth_soft_fail  = true
os              = "linux"
arch            = "arm"
variant         = "v7"
entrypoint      = ["/entry"]
command         = "run"
args            = ["a", "b"]
work_dir        = "/work"
hostname        = "h"
interactive     = true
tty             = true
init            = true
readonly_rootfs = true
labels {
  k = "v"
}
healthchecks {
  disable = true
}
privileged       = true
cap_add          = ["CAP_X"]
cap_drop         = ["all"]
security_opt     = ["no-new-privileges", "seccomp=unconfined", "label:disable"]
apparmor_profile = "profile"
pid_mode         = "host"
uts_mode         = "host"
userns_mode      = "host"
ipc_mode         = "host"
cgroupns         = "private"
group_add        = ["g"]
runtime          = "runc"

cpu_hard_limit    = true
cpu_cfs_period    = 2000
cpuset_cpus       = "0-3"
memory_hard_limit = 8
memory_swap       = 9
memory_swappiness = 10
oom_score_adj     = -11
pids_limit        = 12
shm_size          = 13
storage_opt {
  size = "14G"
}
sysctl {
  "net.core.somaxconn" = "15"
}
ulimit {
  nofile = "16:17"
}
devices {
  host_path          = "/dev/a"
  container_path     = "/dev/b"
  cgroup_permissions = "r"
}
devices {
  host_path = "/dev/c"
}
volumes       = ["a:/b:ro"]
volume_driver = "pxd"
mount {
  type     = "bind"
  target   = "/t1"
  source   = "/s1"
  readonly = true
  bind_options {
    propagation = "rshared"
  }
}
mounts = [
  {
    target = "/t2"
    source = "s2"
    volume_options = {
      no_copy = true
      subpath = "sub"
      labels = {
        l = "m"
      }
      driver_config = {
        name = "d"
        options = {
          o = "p"
        }
      }
    }
  },
  {
    type   = "tmpfs"
    target = "/t3"
    tmpfs_options = {
      size = 18
      mode = 0777
    }
  },
]
tmpfs = ["/t4:size=1m"]
logging {
  type   = "journald"
  driver = "gelf"
  config {
    tag = "x"
  }
}
network_mode       = "net"
network_aliases    = ["alias"]
ipv4_address       = "192.0.2.1"
ipv6_address       = "2001:db8::1"
mac_address        = "02:68:b3:29:da:98"
dns_servers        = ["192.0.2.2"]
dns_search_domains = ["example.org"]
dns_options        = ["ndots:1"]
extra_hosts        = ["a:192.0.2.3", "b:2001:db8::2"]
ports              = ["http"]
port_map {
  http = 80
}
advertise_ipv6_address    = true
container_exists_attempts = 19
gpu {
  count        = 20
  requirements = "warn"
  mount_path   = "/opt/nvidia/"
  on_unhealthy = "fail"

  extra_library_targets = ["/usr/lib/x86_64-linux-gnu/"]
}
logs {
  max_files     = 21
  max_file_size = 22
}
