# A training run on two GPUs of one model with at least 16 GiB each, the way
# deep-learning frameworks want it: much shared memory, no limit on locked
# memory, a large stack, and data and results on the node's disk.

job "training" {
  type = "batch"

  group "train" {
    restart {
      attempts = 2
      interval = "1h"
      delay    = "30s"
      mode     = "fail"
    }

    task "train" {
      driver = "gpu-docker"

      config {
        image              = "nvcr.io/nvidia/pytorch:23.10-py3"
        image_pull_timeout = "30m"
        command            = "torchrun"
        args               = ["--nproc-per-node=2", "/local/train.py"]
        work_dir           = "/results"

        shm_size = 8589934592
        ulimit {
          memlock = "-1"
          stack   = "67108864"
        }

        # Needs volumes.enabled in the plugin's configuration.
        mount {
          type     = "bind"
          source   = "/srv/datasets"
          target   = "/data"
          readonly = true
        }
        volumes = ["results:/results"]

        gpu {
          count        = 2
          on_unhealthy = "fail" # end the task, so that Nomad places it elsewhere
        }
      }

      template {
        destination = "local/train.py"
        data        = "print('your training script')"
      }

      resources {
        cpu    = 8000
        memory = 32768

        device "nvidia/gpu" {
          count = 2

          constraint {
            attribute = "${device.attr.memory}"
            operator  = ">="
            value     = "16 GiB"
          }
        }
      }
    }
  }
}
