# Two tasks of one allocation that share more than the allocation's directory: the
# second one uses the first one's network and its shared memory. Neither needs
# privileges for it, because both belong to one allocation.

job "sidecar" {
  group "model" {
    task "model" {
      driver = "gpu-docker"

      config {
        image    = "nvcr.io/nvidia/tritonserver:23.10-py3"
        command  = "tritonserver"
        args     = ["--model-repository=/local/models"]
        ipc_mode = "shareable"
        shm_size = 1073741824
      }

      resources {
        cpu    = 4000
        memory = 8192

        device "nvidia/gpu" {
          count = 1
        }
      }
    }

    task "proxy" {
      driver = "gpu-docker"

      lifecycle {
        hook    = "poststart"
        sidecar = true
      }

      config {
        image        = "envoyproxy/envoy:v1.27-latest"
        network_mode = "task:model"
        ipc_mode     = "task:model"
      }

      resources {
        cpu    = 200
        memory = 128
      }
    }
  }
}
