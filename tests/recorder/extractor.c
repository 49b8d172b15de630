/* The flow extractor's function as a patched NCCL has it: of rank 0 it writes a file of its own, and of others it has nothing. */
#include "fake_nccl.h"
#include <stdio.h>

int ncclWriteAggregatedFlow(P comm) {
    int rank = -1;
    ncclCommUserRank(comm, &rank);
    fprintf(stderr, "extractor: rank %d\n", rank);
    return rank == 0 ? 0 : 2;
}
