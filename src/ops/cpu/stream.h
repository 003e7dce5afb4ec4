/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h — the stream of the CPU device (private to src/ops/cpu). Work is done at the
 * call. */
#ifndef PT_CPU_STREAM_H
#define PT_CPU_STREAM_H

#include "src/ops/backend.h"

struct pt_stream {
    pt_workspace_t workspace;
    int threads;
    struct pt_matmul *matmul; /* of the device; may be NULL (matmul.h) */
};

#endif
