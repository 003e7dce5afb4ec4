/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h — a fingerprint of tensors that does not depend on the layout (layer: base).
 *
 * The digest of a tensor is the sum modulo 2^64 over its elements of
 *   mix64(mix64(id + index) ^ bits)
 * where id = pt_name_id(name), index is the row-major global index of the element, and
 * bits are the element's bits in little-endian order, zero-extended to 64. The digest
 * of a state is the sum over its tensors. Addition commutes, so each rank sums the
 * elements it owns. doc/formats/digest.md is the definition. */
#ifndef PENTA_DIGEST_H
#define PENTA_DIGEST_H

#include "penta/base/dtype.h"
#include "penta/base/rng.h"

static inline uint64_t pt_digest_element(uint64_t id, int64_t index, uint64_t bits)
{
    return pt_mix64(pt_mix64(id + (uint64_t)index) ^ bits);
}

/* Digest of a dense host block of `rows` × `cols` elements. Row r starts at global
 * element first + r*pitch. */
uint64_t pt_digest_block(uint64_t id, pt_dtype_t dtype, const void *data, int64_t rows,
                         int64_t cols, int64_t first, int64_t pitch);

#endif
