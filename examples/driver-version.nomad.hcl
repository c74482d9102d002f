# Only on nodes whose NVIDIA driver can run CUDA 12. Without the constraint a node
# with an older driver would refuse the image and Nomad would try another node.

job "driver-version" {
  type = "batch"

  constraint {
    attribute = "${attr.driver.gpu-docker.cuda}"
    operator  = "version"
    value     = ">= 12.0"
  }

  group "gpu" {
    task "cuda" {
      driver = "gpu-docker"

      config {
        image   = "nvidia/cuda:12.2.0-base-ubuntu22.04"
        command = "nvidia-smi"

        gpu {
          requirements = "enforce"
        }
      }

      resources {
        device "nvidia/gpu" {
          count = 1
        }
      }
    }
  }
}
