/* SPDX-License-Identifier: Apache-2.0 */
#include "src/train/private.h"

#include <string.h>

pt_status_t pt_train_fetch(pt_trainer_t *t, const pt_tensor_t *from, int count,
                           void *out)
{
    int64_t words = 0;
    pt_tensor_t all = pt_tensor_1d(t->host_sums.data, PT_I64, PT_MEMORY_HOST,
                                   pt_tensor_count(&t->host_sums));
    for (int i = 0; i < count; i++) {
        int64_t length = pt_tensor_count(&from[i]);
        pt_tensor_t host = pt_tensor_slice(all, 0, words, length);
        PT_TRY(pt_device_copy(t->device, t->stream, &host, &from[i]));
        words += length;
    }
    PT_TRY(pt_comm_wait_stream(t->engine, t->stream));
    if (!t->device->dry)
        memcpy(out, all.data, (size_t)words * sizeof(int64_t));
    return PT_OK;
}
