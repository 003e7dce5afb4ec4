/* stream.h — the stream of the CPU device (private to src/ops/cpu). Work is done at once. */
#ifndef PT_CPU_STREAM_H
#define PT_CPU_STREAM_H

#include <stdint.h>

/* Widest attention head the scratch has room for. */
enum { PT_CPU_MAX_HEAD = 1024 };

struct pt_stream {
    int threads;
    char *scratch;         /* borrowed from the device: `threads` parts */
    int64_t scratch_bytes; /* of one part */
};

#endif
