/* An MPI ring: messages of 1 B to 4 MB go round all ranks, blocking and not, each rank checks every byte of what it
 * gets and sends on something that depends on it. Then one-sided puts, gets and sums, and collectives, checked too. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks;

static void fail(const char* what, long size) {
    fprintf(stderr, "rank %d: wrong data: %s, %ld bytes\n", rank, what, size);
    MPI_Abort(MPI_COMM_WORLD, 2);
}

static unsigned char byte_of(long position, int round, int hop) {
    return (unsigned char)(position * 131 + position / 251 + round * 17 + hop * 7);
}

static void fill(unsigned char* data, long size, int round, int hop) {
    for (long i = 0; i < size; i++) data[i] = byte_of(i, round, hop);
}

static void check(const unsigned char* data, long size, int round, int hop, const char* what) {
    for (long i = 0; i < size; i++)
        if (data[i] != byte_of(i, round, hop)) fail(what, size);
}

static void blocking_ring(unsigned char* data, long size, int round) {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    if (rank == 0) {
        fill(data, size, round, 0);
        MPI_Send(data, (int)size, MPI_BYTE, next, round, MPI_COMM_WORLD);
        MPI_Recv(data, (int)size, MPI_BYTE, before, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(data, size, round, ranks - 1, "blocking ring");
    } else {
        MPI_Recv(data, (int)size, MPI_BYTE, before, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        check(data, size, round, rank - 1, "blocking ring");
        fill(data, size, round, rank);
        MPI_Send(data, (int)size, MPI_BYTE, next, round, MPI_COMM_WORLD);
    }
}

/* Everyone sends at once, with several messages under way. */
static void crowded_ring(unsigned char* out, unsigned char* in, long size, int round) {
    enum { kMessages = 8 };
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Request requests[2 * kMessages];
    for (int i = 0; i < kMessages; i++)
        MPI_Irecv(in + i * size, (int)size, MPI_BYTE, before, i, MPI_COMM_WORLD, &requests[i]);
    for (int i = 0; i < kMessages; i++) {
        fill(out + i * size, size, round + i, rank);
        MPI_Isend(out + i * size, (int)size, MPI_BYTE, next, i, MPI_COMM_WORLD, &requests[kMessages + i]);
    }
    MPI_Waitall(2 * kMessages, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < kMessages; i++) check(in + i * size, size, round + i, before, "crowded ring");
}

static void collectives(void) {
    long mine = rank + 1, sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (sum != (long)ranks * (ranks + 1) / 2) fail("allreduce", sizeof(sum));
    const long size = 50000;
    unsigned char* out = malloc((size_t)(size * ranks));
    unsigned char* in = malloc((size_t)(size * ranks));
    for (int to = 0; to < ranks; to++) fill(out + to * size, size, rank, to);
    MPI_Alltoall(out, (int)size, MPI_BYTE, in, (int)size, MPI_BYTE, MPI_COMM_WORLD);
    for (int from = 0; from < ranks; from++) check(in + from * size, size, from, rank, "alltoall");
    free(out);
    free(in);
}

/* Each rank puts into the next one's window, gets from the one before, and all add to one word of rank 0. */
static void one_sided(void) {
    enum { kRounds = 100 };
    const long size = 100000;
    unsigned char* memory = NULL;
    MPI_Win window;
    MPI_Win_allocate(2 * size + 8, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    long* counter = (long*)(memory + 2 * size);
    *counter = 0;
    fill(memory + size, size, 5, rank);
    MPI_Barrier(MPI_COMM_WORLD);
    unsigned char* out = malloc((size_t)size);
    unsigned char* in = malloc((size_t)size);
    fill(out, size, 9, rank);
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    const long one = 1;
    MPI_Win_lock_all(0, window);
    MPI_Put(out, (int)size, MPI_BYTE, next, 0, (int)size, MPI_BYTE, window);
    MPI_Get(in, (int)size, MPI_BYTE, before, size, (int)size, MPI_BYTE, window);
    for (int i = 0; i < kRounds; i++) {
        long old = 0;
        MPI_Fetch_and_op(&one, &old, MPI_LONG, 0, 2 * size, MPI_SUM, window);
        MPI_Win_flush(0, window);
    }
    MPI_Win_unlock_all(window);
    MPI_Barrier(MPI_COMM_WORLD);
    check(memory, size, 9, before, "put");
    check(in, size, 5, before, "get");
    MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
    if (rank == 0 && *counter != (long)kRounds * ranks) fail("fetch and add", 8);
    MPI_Win_unlock(rank, window);
    free(out);
    free(in);
    MPI_Win_free(&window);
}

int main(int argc, char** argv) {
    static const long sizes[] = {1, 8, 100, 1024, 4096, 8193, 65536, 1000003, 4 << 20};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int with_windows = argc > 1 && argv[1][0] == 'w';
    unsigned char* out = malloc(8 * (4 << 20));
    unsigned char* in = malloc(8 * (4 << 20));
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int round = 0; round < 5; round++) blocking_ring(in, sizes[i], round);
        crowded_ring(out, in, sizes[i], (int)i);
    }
    collectives();
    if (with_windows) one_sided();
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) printf("ring of %d ranks: all data right\n", ranks);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
