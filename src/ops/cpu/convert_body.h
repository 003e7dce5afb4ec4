/* SPDX-License-Identifier: Apache-2.0 */
/* convert_body.h — see each_wide.h; no include guard. */

static void FN(put_wide)(A *to, const A *from, int64_t count, bool add)
{
    if (add)
        for (int64_t i = 0; i < count; i++)
            to[i] = to[i] + from[i];
    else
        memcpy(to, from, (size_t)count * sizeof(A));
}

void PUT(const pt_tensor_t *to, int64_t offset, const A *from, int64_t count, bool add)
{
    A sum[PT_CONVERT_CHUNK];
    if (to->dtype == A_TYPE) {
        FN(put_wide)((A *)to->data + offset, from, count, add);
        return;
    }
    for (int64_t first = 0; first < count; first += PT_CONVERT_CHUNK) {
        int64_t part = pt_min(PT_CONVERT_CHUNK, count - first);
        void *at = PT_ELEMENT(void, *to, offset + first);
        if (add) {
            WIDEN(to->dtype, at, sum, part);
            FN(put_wide)(sum, from + first, part, true);
        }
        NARROW(to->dtype, add ? sum : from + first, at, part);
    }
}
