#!/usr/bin/env python3
"""The recipe for Slurm of `docs/cluster.md`, as it is there, in a Slurm of one node that is started for it and stopped after it.

usage: slurm.py TRACES

Needs slurmctld and slurmd, and root. One trace is broken and one task is cancelled, so the answer that comes after the array has to name what is
missing; then the array is started again, and the answer has all but the broken trace.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = os.path.abspath(shutil.which(os.environ.get("NCCL_STACKS_BIN", "nccl-stacks")) or "nccl-stacks")

CONFIG = """
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_res
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=8000 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP
"""


def blocks():
    """The list of the traces, the script of the array, and what starts it."""
    page = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"(?ms)^## Slurm\n(.*?)(?=^## )", page)
    return re.findall(r"(?ms)^```sh\n(.*?)^```", section)


def run(script, work, environment):
    """Runs the recipe's commands, waits for all jobs and prints what came of the answer."""
    subprocess.run(["bash", "-ec", script], cwd=work, env=environment, check=True)
    while subprocess.run(["squeue", "--noheader"], env=environment, capture_output=True, text=True).stdout.strip():
        time.sleep(0.5)
    answer = work / "answer.txt"
    print("  the answer says:", (work / "answer.log").read_text().strip().replace("\n", "\n    ")[:600])
    print("  the answer:", answer.read_text().splitlines()[0] if answer.exists() else "none")


def main():
    traces = Path(sys.argv[1]).resolve()
    listing, array, start = blocks()
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        state, work = Path(folder, "slurm"), Path(folder, "work")
        (state / "spool").mkdir(parents=True)
        work.mkdir()
        (state / "slurm.conf").write_text(CONFIG.format(host=socket.gethostname().split(".")[0], folder=state, cpus=os.cpu_count()))
        (work / "bin").mkdir()
        (work / "bin" / "nccl-stacks").symlink_to(PROGRAM)
        environment = {**os.environ, "SLURM_CONF": str(state / "slurm.conf"), "PATH": f"{work}/bin:{os.environ['PATH']}"}
        (work / "traces").mkdir()
        names = sorted(traces.glob("*.json.gz"))
        for name in names:
            (work / "traces" / name.name).symlink_to(name)
        broken = work / "traces" / names[0].name
        broken.unlink()
        broken.write_bytes(b"no trace")
        subprocess.run(["bash", "-ec", listing], cwd=work, check=True)
        (work / "parts.sbatch").write_text(array)
        start = start.replace("--expect 1024", f"--quiet --expect {len(names)}")
        try:
            for daemon in ("slurmctld", "slurmd"):
                subprocess.run([daemon], env=environment, check=True)
            time.sleep(2)
            print(f"{len(names)} traces, of which 1 is broken; task 5 of the array is cancelled")
            submit = "array=$(sbatch --parsable parts.sbatch)"
            run(start.replace(submit, submit + "\nscancel ${array}_5"), work, environment)
            print("and again")
            run(start, work, environment)
            print("  parts:", len(list((work / "parts").glob("*.parquet"))))
        finally:
            for daemon in ("slurmd", "slurmctld"):
                pid = state / f"{daemon}.pid"
                if pid.exists():
                    os.kill(int(pid.read_text()), signal.SIGTERM)
            time.sleep(2)


if __name__ == "__main__":
    main()
