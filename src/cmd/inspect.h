/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.h — parts of `penta inspect` (private to cmd). Each result is one JSON
 * object; for people it is printed as lines. Elements are read in pieces, so memory is
 * bounded. */
#ifndef PENTA_CMD_INSPECT_H
#define PENTA_CMD_INSPECT_H

#include "penta/io/checkpoint.h"

#include <jansson.h>

enum { PT_INSPECT_PIECE_BYTES = 1 << 24 };

/* "group/name". Returns `buffer`. */
const char *pt_inspect_name(const pt_checkpoint_tensor_t *tensor, char buffer[128]);
json_t *pt_inspect_hex(uint64_t digest);
json_t *pt_inspect_number(double value); /* null unless finite */

/* Reads every element and compares the digests.
 * out: [in,out] object that receives the results, also on failure.
 * Fails: IO if a digest is wrong, naming the tensors. */
pt_status_t pt_inspect_verify(pt_checkpoint_reader_t *reader, json_t *out);
/* Compares all tensors. Fails: NUMERIC if elements differ or tensors are missing. */
pt_status_t pt_inspect_diff(pt_checkpoint_reader_t *a, pt_checkpoint_reader_t *b,
                            json_t *out);

#endif
