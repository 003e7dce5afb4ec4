/* SPDX-License-Identifier: Apache-2.0 */
/* h5.h — the part of HDF5 that Penta uses (private to io).
 *
 * HDF5 prints nothing; its innermost error text becomes part of our messages. Files
 * have the format of HDF5 1.8, whose metadata have checksums. A handle is a hid_t; -1:
 * none. */
#ifndef PT_IO_H5_H
#define PT_IO_H5_H

#define H5_USE_110_API
#include <hdf5.h>

#include "penta/base/dtype.h"
#include "penta/base/status.h"

enum { PT_H5_TEXT = 512 };

/* Disables HDF5's error output. Called before the first HDF5 call of an operation. */
void pt_h5_init(void);
/* Innermost text of the last HDF5 error; "": none. Returns `buffer`. */
const char *pt_h5_error(char *buffer, size_t size);
/* Closes any handle except a written file, and sets it to -1. */
void pt_h5_close(hid_t *id);

/* Without MPI: the names and errors are those of the file system. Fails: IO. */
pt_status_t pt_h5_create_file(const char *path, hid_t *out);
pt_status_t pt_h5_open_file(const char *path, unsigned flags, hid_t *out);
/* Also closes open objects of the file. */
pt_status_t pt_h5_close_file(const char *path, hid_t *file);

/* Type on disk, little-endian; -1: not used in files. The caller closes it. */
hid_t pt_h5_type(pt_dtype_t dtype);
/* Returns false for a type that Penta does not use. */
bool pt_h5_dtype(hid_t type, pt_dtype_t *out);

/* ---- attributes: scalars --------------------------------------------------------- */

typedef enum pt_h5_kind {
    PT_H5_INT64,
    PT_H5_UINT64,
    PT_H5_DOUBLE,
    PT_H5_STRING
} pt_h5_kind_t;

typedef struct pt_h5_attribute {
    const char *name;
    pt_h5_kind_t kind;
    size_t size; /* of the value; string: of the buffer */
} pt_h5_attribute_t;

/* An object with attributes: its handle, and names for messages. */
typedef struct pt_h5_place {
    hid_t id;
    const char *file, *object;
} pt_h5_place_t;

/* Creates the attribute if it is missing. */
pt_status_t pt_h5_write_attribute(pt_h5_place_t place, pt_h5_attribute_t attribute,
                                  const void *value);
/* Checks kind, size and shape before reading; strings are NUL-terminated. */
pt_status_t pt_h5_read_attribute(pt_h5_place_t place, pt_h5_attribute_t attribute,
                                 void *value);

#define PT_H5_FAIL(path_, ...) pt_h5_fail(__FILE__, __LINE__, (path_), __VA_ARGS__)
/* For readers: raises DAMAGED, or IO if HDF5 failed because of a system call. */
#define PT_H5_DAMAGED(path_, ...)                                                      \
    pt_h5_damaged(__FILE__, __LINE__, (path_), __VA_ARGS__)
/* Raises IO: "path: message (HDF5: error text)". */
pt_status_t pt_h5_fail(const char *file, int line, const char *path, const char *format,
                       ...) __attribute__((format(printf, 4, 5)));
pt_status_t pt_h5_damaged(const char *file, int line, const char *path,
                          const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
