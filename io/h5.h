/* SPDX-License-Identifier: Apache-2.0 */
/* h5.h — the little of HDF5 that Penta uses (private to io).
 *
 * HDF5 prints nothing itself: its innermost error text becomes part of ours. Files are of the 1.8
 * format, whose metadata carry checksums. Handles are hid_t, -1 where there is none. */
#ifndef PT_IO_H5_H
#define PT_IO_H5_H

#define H5_USE_110_API
#include <hdf5.h>

#include "penta/base/dtype.h"
#include "penta/base/status.h"

enum { PT_H5_TEXT = 512 };

/* Turns HDF5's own printing off; before every first call of an operation. */
void pt_h5_init(void);
/* What HDF5 said last, innermost; "" if nothing. Returns buffer. */
const char *pt_h5_error(char *buffer, size_t size);
/* Any kind of handle but a file's that was written; sets it to -1. */
void pt_h5_close(hid_t *id);

/* This process alone; the file system's names and errors, as they are. Fails: IO. */
pt_status_t pt_h5_create_file(const char *path, hid_t *out);
pt_status_t pt_h5_open_file(const char *path, unsigned flags, hid_t *out);
/* Closes what is open inside, too. */
pt_status_t pt_h5_close_file(const char *path, hid_t *file);

/* On disk, little-endian; -1 for types that no file holds. Caller closes. */
hid_t pt_h5_type(pt_dtype_t dtype);
/* False: the type is none of ours. */
bool pt_h5_dtype(hid_t type, pt_dtype_t *out);

/* ---- attributes: scalars -------------------------------------------------------------------- */

typedef enum pt_h5_kind {
    PT_H5_INT64,
    PT_H5_UINT64,
    PT_H5_DOUBLE,
    PT_H5_STRING
} pt_h5_kind_t;

typedef struct pt_h5_attribute {
    const char *name;
    pt_h5_kind_t kind;
    size_t size; /* of the value; of the whole buffer for strings */
} pt_h5_attribute_t;

/* Where an attribute stands: handle, and names for messages. */
typedef struct pt_h5_place {
    hid_t id;
    const char *file, *object;
} pt_h5_place_t;

/* Makes the attribute if it is missing. */
pt_status_t pt_h5_write_attribute(pt_h5_place_t place, pt_h5_attribute_t attribute,
                                  const void *value);
/* Kind, size and shape are checked first; strings come back terminated. */
pt_status_t pt_h5_read_attribute(pt_h5_place_t place, pt_h5_attribute_t attribute,
                                 void *value);

#define PT_H5_FAIL(path_, ...) pt_h5_fail(__FILE__, __LINE__, (path_), __VA_ARGS__)
/* For what reads: DAMAGED, unless the system refused something while HDF5 read. */
#define PT_H5_DAMAGED(path_, ...)                                                      \
    pt_h5_damaged(__FILE__, __LINE__, (path_), __VA_ARGS__)
/* IO: "path: message: what HDF5 said". */
pt_status_t pt_h5_fail(const char *file, int line, const char *path, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));
pt_status_t pt_h5_damaged(const char *file, int line, const char *path,
                          const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
