/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.h — parts of `penta inspect`. Each result is one JSON object; people see the same object
 * as lines. Memory is bounded: elements are read in pieces. */
#ifndef PENTA_CMD_INSPECT_H
#define PENTA_CMD_INSPECT_H

#include "penta/io/checkpoint.h"

#include <jansson.h>

enum { PT_INSPECT_PIECE_BYTES = 1 << 24 };

/* "group/name"; returns buffer. */
const char *pt_inspect_name(const pt_checkpoint_tensor_t *tensor, char buffer[128]);
json_t *pt_inspect_hex(uint64_t digest);
json_t *pt_inspect_number(double value); /* null unless finite */

/* Reads every element; *out stolen by the caller even on failure. IO when a digest is wrong, naming
 * the tensors. */
pt_status_t pt_inspect_verify(pt_checkpoint_reader_t *reader, json_t *out);
/* NUMERIC when elements differ or tensors are missing. */
pt_status_t pt_inspect_diff(pt_checkpoint_reader_t *a, pt_checkpoint_reader_t *b,
                            json_t *out);

#endif
