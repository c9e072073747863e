"""Programs that watch GPUs and do not use them."""

MONITORS = (
    "nvidia-persiste", "nv-hostengine", "dcgm-exporter", "nvidia-smi", "nv-fabricmanage", "nvidia-fabricma",
    "nvidia-cuda-mps", "nvtop", "nvitop", "gpustat", "Xorg", "Xwayland", "gnome-shell",
)  # fmt: skip
"""Programs that hold a GPU without working on it; names as the kernel cuts them, at 15 characters."""
