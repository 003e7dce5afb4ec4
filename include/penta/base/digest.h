/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h — a fingerprint of tensors that does not depend on the layout (layer: base).
 *
 * The digest of a tensor is the sum modulo 2^64 over its elements of
 *   mix64(mix64(id + index) ^ bits)
 * with id = pt_name_id(name), index the row-major global element index, bits the element's
 * bits in little-endian order, zero-extended to 64. The state digest is the sum over tensors.
 * Addition commutes, so every holder sums its own part. Defined in doc/formats/digest.md. */
#ifndef PENTA_DIGEST_H
#define PENTA_DIGEST_H

#include "penta/base/dtype.h"
#include "penta/base/rng.h"

static inline uint64_t pt_digest_element(uint64_t id, int64_t index, uint64_t bits)
{
    return pt_mix64(pt_mix64(id + (uint64_t)index) ^ bits);
}

/* Digest of a dense host block of `rows` × `cols` elements, row r starting at global element
 * first + r*pitch. */
uint64_t pt_digest_block(uint64_t id, pt_dtype_t dtype, const void *data, int64_t rows,
                         int64_t cols, int64_t first, int64_t pitch);

#endif
