# One task with one GPU of any kind. It lists what it can see, which is its own
# GPU and no other, and then waits.
#
#   nomad job run example.nomad.hcl
#   nomad alloc logs -job example
#
# The image needs no NVIDIA software of its own: nvidia-smi and the driver's
# libraries come from the node's driver volume.

variable "image" {
  description = "Any image with a shell."
  type        = string
  default     = "nvidia/cuda:12.2.0-base-ubuntu22.04"
}

job "example" {
  group "gpu" {
    task "gpu" {
      driver = "gpu-docker"

      config {
        image   = var.image
        command = "sh"
        args    = ["-c", "trap 'exit 0' TERM; nvidia-smi -L; while sleep 1; do :; done"]

        gpu {
          count = 1 # start only with exactly the one GPU that is reserved below
        }
      }

      resources {
        cpu    = 100
        memory = 128

        device "nvidia/gpu" {
          count = 1
        }
      }
    }
  }
}
