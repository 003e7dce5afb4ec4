/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_write.h — state of a checkpoint being written (private to the writer). */
#ifndef PT_IO_CHECKPOINT_WRITE_H
#define PT_IO_CHECKPOINT_WRITE_H

#include "io/checkpoint_file.h"

struct pt_checkpoint_writer {
    pt_comm_t *comm;
    char *path, *partial;
    const char *record; /* NULL: none */
    const pt_checkpoint_tensor_t *tensors;
    int count;
    int fd;           /* of the partial file; -1: not open */
    int64_t *offsets; /* [count] first byte of each tensor in the file */
    uint64_t *sums;   /* [2*count] per tensor: digest and number of elements written */
};

void pt_checkpoint_writer_free(pt_checkpoint_writer_t *writer);

#endif
