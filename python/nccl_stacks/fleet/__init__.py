"""The traces of many ranks, reduced to parts by many processes on many machines, and merged to one answer.

The work itself is `nccl-stacks part` for each trace and `nccl-stacks ranks` of the parts at the end. An engine that the cluster has already (Ray, Dask, or
this machine alone) only starts the first where there is room. So an engine is small here: it gets batches of paths, and gives back a
row for each, or says that a batch is lost.

| module | has |
|---|---|
| `work` | what a worker does with a batch |
| `plan` | which traces have no part yet |
| `engines` | this machine, Ray, Dask |
| `drive` | retries, and what becomes of each trace |
| `__main__` | the command line |
"""
