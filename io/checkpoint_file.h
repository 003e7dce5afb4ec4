/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_file.h — the file format, shared by writer and reader (private to io). */
#ifndef PT_IO_CHECKPOINT_FILE_H
#define PT_IO_CHECKPOINT_FILE_H

#include "io/h5.h"
#include "penta/io/checkpoint.h"

enum {
    PT_CHECKPOINT_PATH = 128,            /* "/group/name" */
    PT_CHECKPOINT_PIECE_BYTES = 1 << 25, /* per read or write */
    PT_CHECKPOINT_MAX_TENSORS = 1 << 20,
    PT_CHECKPOINT_MAX_TEXT = 1 << 26
};

typedef struct pt_checkpoint_item {
    pt_checkpoint_tensor_t tensor;
    int64_t offset; /* of its first byte in the file */
    uint64_t digest;
} pt_checkpoint_item_t;

/* The content of a file without elements. */
typedef struct pt_checkpoint_content {
    pt_checkpoint_header_t header;
    pt_checkpoint_item_t *items;
    int count, room;
    char *config, *hosts;
    int64_t file_bytes;
} pt_checkpoint_content_t;

/* "/group/name". Returns `buffer`. */
const char *pt_checkpoint_tensor_path(const pt_checkpoint_tensor_t *tensor,
                                      char buffer[PT_CHECKPOINT_PATH]);
uint64_t pt_checkpoint_tensor_id(const pt_checkpoint_tensor_t *tensor);

pt_status_t pt_checkpoint_write_header(hid_t file, const char *path,
                                       const pt_checkpoint_header_t *header);
pt_status_t pt_checkpoint_read_header(hid_t file, const char *path,
                                      pt_checkpoint_header_t *out);
pt_status_t pt_checkpoint_write_digest(hid_t dataset, const char *path,
                                       const char *name, uint64_t digest);
pt_status_t pt_checkpoint_read_digest(hid_t dataset, const char *path, const char *name,
                                      uint64_t *out);

/* Reads and checks everything except elements.
 * out: [out] to be freed with pt_checkpoint_content_free, also after a failure.
 * Local.
 * Fails: DAMAGED, naming file and defect; IO if it cannot be read, or if its format is
 * another one. */
pt_status_t pt_checkpoint_parse(const char *path, pt_checkpoint_content_t *out);
void pt_checkpoint_content_free(pt_checkpoint_content_t *content);

/* Lists files step_DIGITS with this suffix by falling step. A missing directory has
 * none. out: [out] the caller frees it with pt_free.
 * Local. */
pt_status_t pt_checkpoint_scan(const char *directory, const char *suffix,
                               pt_checkpoint_entry_t **out, int *count);
/* Reads only the step of the header. Local. Fails as pt_checkpoint_parse. */
pt_status_t pt_checkpoint_peek(const char *path, int64_t *step);
/* Injects the fault that PENTA_FAULT requests at this site, as the error it
 * imitates. */
pt_status_t pt_checkpoint_inject(const char *site, const char *path);

/* Reads every tensor, a share on each rank, and compares the digests. Collective. */
pt_status_t pt_checkpoint_read_all(pt_comm_t *comm, pt_checkpoint_reader_t *reader);

#endif
