# A job written for Nomad's docker driver, with only the driver's name changed. Its
# options are those of the docker driver, deprecated ones included.

job "migrated" {
  type = "batch"

  group "cache" {
    task "redis" {
      driver = "gpu-docker"
      user   = "redis"

      config {
        image             = "https://docker.io/library/redis:7"
        entrypoint        = ["docker-entrypoint.sh"]
        command           = "redis-server"
        args              = ["--port", "6379"]
        hostname          = "cache"
        dns_servers       = ["192.0.2.53"]
        network_mode      = "bridge"
        volumes           = ["data:/data", "local/redis.conf:/etc/redis.conf:ro"]
        memory_hard_limit = 512

        port_map {
          db = 6379
        }

        sysctl = {
          "net.core.somaxconn" = "16384"
        }

        ulimit {
          nofile = "20000:40000"
        }

        mounts = [
          {
            type   = "tmpfs"
            target = "/scratch"
            tmpfs_options = {
              size = 16777216
            }
          }
        ]
      }

      env {
        NVIDIA_VISIBLE_DEVICES = "all" # has no effect: the task holds no GPU
      }

      resources {
        cpu    = 500
        memory = 256

        network {
          port "db" {}
        }
      }
    }
  }
}
