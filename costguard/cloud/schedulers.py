"""The daemons by which a host is known as a node of a scheduler.

Sources: the daemons' own documentation; proc_pid_comm(5) (15 characters).
"""

from collections.abc import Mapping

DAEMONS: Mapping[str, str] = {
    **dict.fromkeys(("kubelet", "kubelite", "k3s-agent", "k3s-server", "rke2", "k0s"), "Kubernetes"),
    **dict.fromkeys(("slurmd", "slurmctld"), "Slurm"),
    "raylet": "Ray",
    "nomad": "Nomad",
    "dstack-shim": "dstack",
    "condor_startd": "HTCondor",
    "pbs_mom": "PBS",
    "sge_execd": "Grid Engine",
    "sbatchd": "LSF",
    "determined-agen": "Determined",
}
"""Names of processes, as the kernel cuts them."""
