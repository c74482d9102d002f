# A service without a GPU, with what Nomad's docker driver offers too: a bridge
# network of the group, published ports, its own resolver, health of its own, and
# few privileges. It sees no GPU, whatever its image says.

job "web" {
  group "web" {
    network {
      mode = "bridge"
      port "http" {
        to = 8080
      }
      dns {
        servers = ["192.0.2.53"]
      }
    }

    service {
      name     = "web"
      port     = "http"
      provider = "nomad"
    }

    task "server" {
      driver = "gpu-docker"

      config {
        image   = "nginx:1.25"
        command = "nginx"
        args    = ["-g", "daemon off;", "-c", "/local/nginx.conf"]
        ports   = ["http"]

        extra_hosts     = ["backend.internal:192.0.2.10"]
        readonly_rootfs = true
        tmpfs           = ["/var/cache/nginx:size=64m", "/run"]
        cap_drop        = ["all"]
        cap_add         = ["chown", "setuid", "setgid"]
        security_opt    = ["no-new-privileges"]
        pids_limit      = 200
        cpu_hard_limit  = true

        labels {
          team = "web"
        }

        logging {
          type = "json-file"
          config {
            max-size = "10m"
            max-file = "3"
          }
        }
      }

      template {
        destination = "local/nginx.conf"
        data        = "events {} http { server { listen 8080; } }"
      }

      resources {
        cpu        = 200
        memory     = 64
        memory_max = 128
      }
    }
  }
}
