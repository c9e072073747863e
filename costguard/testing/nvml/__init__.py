"""A stand-in for the NVIDIA management library, and the script that says what its GPUs do.

    library = build(directory)  # compiles libnvidia-ml.so.1 with the machine's C compiler
    script = Script(directory / "gpus", gpus=2)
    script.set(util=95, power=600)  # all GPUs
    script.fail("nvmlDeviceGetUtilizationRates", 15, gpu=1)
    subprocess.run(command, env=os.environ | script.environment(library))

Running programs see a change in their next call. docs/testing-nvml.md names every line of
the script file, for those who write it by hand.
"""

from costguard.testing.nvml.build import CompilerMissingError, build
from costguard.testing.nvml.process import NoAnswerError, ReaderProcess
from costguard.testing.nvml.script import NA, Process, Script, Values, write_sysfs

__all__ = [
    "NA",
    "CompilerMissingError",
    "NoAnswerError",
    "Process",
    "ReaderProcess",
    "Script",
    "Values",
    "build",
    "write_sysfs",
]
