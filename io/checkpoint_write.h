/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_write.h — a file being written (private to the two halves of the writer). */
#ifndef PT_IO_CHECKPOINT_WRITE_H
#define PT_IO_CHECKPOINT_WRITE_H

#include "io/checkpoint_file.h"

struct pt_checkpoint_writer {
    pt_comm_t *comm;
    char *path, *partial;
    const char *record; /* NULL: none */
    const pt_checkpoint_tensor_t *tensors;
    int count;
    int fd;           /* of the partial file, -1: not open */
    int64_t *offsets; /* of each tensor: its first byte in the file */
    uint64_t *
        sums; /* of each tensor: digest of what was written, elements written; 2*count */
};

void pt_checkpoint_writer_free(pt_checkpoint_writer_t *writer);

#endif
