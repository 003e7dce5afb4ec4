/* SPDX-License-Identifier: Apache-2.0 */
#include "io/h5.h"

#include "io/file.h"
#include "penta/io/checkpoint.h"

#include <errno.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pt_checkpoint_before_mpi(void)
{
    (void)H5dont_atexit();
    (void)H5open();
}

void pt_h5_init(void)
{
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static herr_t h5_take_first(unsigned n, const H5E_error2_t *error, void *context)
{
    const char **text = context;

    if (n == 0 && error->desc)
        *text = error->desc;
    return 0;
}

const char *pt_h5_error(char *buffer, size_t size)
{
    const char *text = "";

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, h5_take_first, &text);
    snprintf(buffer, size, "%s", text);
    /* HDF5 quotes MPI and dates with line ends; our messages have one line. */
    for (char *at = buffer; *at != '\0'; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
    return buffer;
}

/* HDF5 reports errno only in a text of its file driver: "..., errno = 5, ...". */
static herr_t h5_take_errno(unsigned n, const H5E_error2_t *error, void *context)
{
    static const char key[] = "errno = ";
    const char *at = error->desc ? strstr(error->desc, key) : NULL;
    int *number = context;

    (void)n;
    if (at && *number == 0)
        *number = (int)strtol(at + sizeof key - 1, NULL, 10);
    return 0;
}

/* 0: no system call failed. */
static int h5_errno(void)
{
    int error = 0;

    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, h5_take_errno, &error);
    return error;
}

static pt_status_t h5_raise(pt_status_t status, int error, const char *file, int line,
                            const char *path, const char *format, va_list args)
{
    char message[PT_H5_TEXT], reason[PT_H5_TEXT];

    vsnprintf(message, sizeof message, format, args);
    pt_h5_error(reason, sizeof reason);
    return pt_error_raise(status, PT_SCOPE_LOCAL, error, file, line, "%s: %s%s%s%s",
                          path, message, reason[0] ? " (HDF5: " : "", reason,
                          reason[0] ? ")" : "");
}

pt_status_t pt_h5_fail(const char *file, int line, const char *path, const char *format,
                       ...)
{
    va_list args;

    va_start(args, format);
    pt_status_t status = h5_raise(PT_IO, h5_errno(), file, line, path, format, args);
    va_end(args);
    return status;
}

pt_status_t pt_h5_damaged(const char *file, int line, const char *path,
                          const char *format, ...)
{
    va_list args;
    int error = h5_errno();

    /* With damaged metadata HDF5 accesses offsets outside the file. */
    if (error != 0 && error != EINVAL && error != EFBIG && error != EOVERFLOW)
        return pt_file_unreadable(path, error);
    va_start(args, format);
    pt_status_t status = h5_raise(PT_DAMAGED, 0, file, line, path, format, args);
    va_end(args);
    return status;
}

void pt_h5_close(hid_t *id)
{
    if (*id >= 0)
        H5Idec_ref(*id);
    *id = -1;
}

/* Disables file locking: published files never change and a partial one has one owner,
 * so locks would only fail on file systems without them. */
static hid_t h5_access_list(void)
{
    hid_t list = H5Pcreate(H5P_FILE_ACCESS);

    if (list >= 0 &&
        (H5Pset_libver_bounds(list, H5F_LIBVER_V18, H5F_LIBVER_V18) < 0 ||
         H5Pset_fclose_degree(list, H5F_CLOSE_STRONG) < 0 ||
         H5Pset_fapl_sec2(list) < 0 || H5Pset_file_locking(list, false, true) < 0))
        pt_h5_close(&list);
    return list;
}

pt_status_t pt_h5_create_file(const char *path, hid_t *out)
{
    hid_t list = h5_access_list();

    *out = list < 0 ? -1 : H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, list);
    if (*out < 0) {
        pt_status_t status = PT_H5_FAIL(path, "cannot be created");
        pt_h5_close(&list);
        return status;
    }
    pt_h5_close(&list);
    return PT_OK;
}

pt_status_t pt_h5_open_file(const char *path, unsigned flags, hid_t *out)
{
    hid_t list = h5_access_list();
    pt_status_t status = PT_OK;

    *out = list < 0 ? -1 : H5Fopen(path, flags, list);
    if (*out < 0)
        status = PT_H5_DAMAGED(path, "HDF5 cannot open it");
    pt_h5_close(&list);
    return status;
}

pt_status_t pt_h5_close_file(const char *path, hid_t *file)
{
    hid_t id = *file;

    *file = -1;
    if (id >= 0 && H5Fclose(id) < 0)
        return PT_H5_FAIL(path, "cannot be closed, so it is incomplete");
    return PT_OK;
}

/* HDF5 before 2.0 has no type for bf16: fp32 without the lower half. */
static hid_t h5_make_bf16(void)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);

    if (type < 0 || H5Tset_fields(type, 15, 7, 8, 0, 7) < 0 || H5Tset_size(type, 2) < 0)
        pt_h5_close(&type);
    return type;
}

hid_t pt_h5_type(pt_dtype_t dtype)
{
    switch (dtype) {
    case PT_F64: return H5Tcopy(H5T_IEEE_F64LE);
    case PT_F32: return H5Tcopy(H5T_IEEE_F32LE);
    case PT_BF16: return h5_make_bf16();
    default: return -1;
    }
}

bool pt_h5_dtype(hid_t type, pt_dtype_t *out)
{
    static const pt_dtype_t kept[] = {PT_F64, PT_F32, PT_BF16};
    bool found = false;

    for (size_t i = 0; i < sizeof kept / sizeof kept[0] && !found; i++) {
        hid_t known = pt_h5_type(kept[i]);
        found = known >= 0 && H5Tequal(type, known) > 0;
        pt_h5_close(&known);
        *out = kept[i];
    }
    return found;
}

/* ---- attributes ---- */

/* A new type; on disk it differs only in byte order. */
static hid_t h5_type_of(pt_h5_attribute_t attribute, bool on_disk)
{
    hid_t type;

    switch (attribute.kind) {
    case PT_H5_INT64: return H5Tcopy(on_disk ? H5T_STD_I64LE : H5T_NATIVE_INT64);
    case PT_H5_UINT64: return H5Tcopy(on_disk ? H5T_STD_U64LE : H5T_NATIVE_UINT64);
    case PT_H5_DOUBLE: return H5Tcopy(on_disk ? H5T_IEEE_F64LE : H5T_NATIVE_DOUBLE);
    case PT_H5_STRING: break;
    }
    type = H5Tcopy(H5T_C_S1);
    if (type >= 0 &&
        (H5Tset_size(type, attribute.size) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0))
        pt_h5_close(&type);
    return type;
}

pt_status_t pt_h5_write_attribute(pt_h5_place_t place, pt_h5_attribute_t attribute,
                                  const void *value)
{
    hid_t type = h5_type_of(attribute, true), memory = h5_type_of(attribute, false);
    hid_t space = H5Screate(H5S_SCALAR), id = -1;
    pt_status_t status = PT_OK;

    if (type >= 0 && memory >= 0 && space >= 0)
        id = H5Aexists(place.id, attribute.name) > 0
                 ? H5Aopen(place.id, attribute.name, H5P_DEFAULT)
                 : H5Acreate2(place.id, attribute.name, type, space, H5P_DEFAULT,
                              H5P_DEFAULT);
    if (id < 0 || H5Awrite(id, memory, value) < 0)
        status = PT_H5_FAIL(place.file, "cannot write attribute %s of %s",
                            attribute.name, place.object);
    pt_h5_close(&id);
    pt_h5_close(&space);
    pt_h5_close(&memory);
    pt_h5_close(&type);
    return status;
}

/* Whether the attribute is one value of the given kind. */
static bool h5_attribute_fits(hid_t id, hid_t type, pt_h5_attribute_t attribute)
{
    hid_t space = H5Aget_space(id), wanted;
    bool fits = space >= 0 && H5Sget_simple_extent_type(space) == H5S_SCALAR;

    pt_h5_close(&space);
    if (!fits || type < 0)
        return false;
    if (attribute.kind == PT_H5_STRING)
        return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
               H5Tget_size(type) <= attribute.size;
    wanted = h5_type_of(attribute, true);
    fits = wanted >= 0 && H5Tequal(type, wanted) > 0;
    pt_h5_close(&wanted);
    return fits;
}

pt_status_t pt_h5_read_attribute(pt_h5_place_t place, pt_h5_attribute_t attribute,
                                 void *value)
{
    pt_status_t status = PT_OK;
    hid_t id = -1, type = -1, memory = -1;

    if (H5Aexists(place.id, attribute.name) > 0)
        id = H5Aopen(place.id, attribute.name, H5P_DEFAULT);
    if (id < 0)
        return PT_H5_DAMAGED(place.file, "%s lacks the attribute %s", place.object,
                             attribute.name);
    type = H5Aget_type(id);
    if (!h5_attribute_fits(id, type, attribute)) {
        status =
            PT_H5_DAMAGED(place.file, "attribute %s of %s has a wrong type or size",
                          attribute.name, place.object);
        goto close_id;
    }
    memory = h5_type_of(attribute, false);
    /* HDF5 converts lengths, but not character sets. */
    if (attribute.kind == PT_H5_STRING)
        H5Tset_cset(memory, H5Tget_cset(type));
    if (H5Aread(id, memory, value) < 0)
        status = PT_H5_DAMAGED(place.file, "cannot read attribute %s of %s",
                               attribute.name, place.object);
    else if (attribute.kind == PT_H5_STRING)
        ((char *)value)[attribute.size - 1] = '\0';
    pt_h5_close(&memory);
close_id:
    pt_h5_close(&type);
    pt_h5_close(&id);
    return status;
}

/* ---- what made a file ------------------------------------------------------------ */

/* The first sentence of the version text of MPI, with single blanks. MPI need not be
 * initialised. */
static void h5_mpi_version(char *out, size_t size)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    size_t n = 0;
    int length;

    MPI_Get_library_version(text, &length);
    for (const char *c = text; *c != '\0' && *c != '\n' && *c != ',' && n + 1 < size;
         c++)
        if (*c > ' ' || (n > 0 && out[n - 1] != ' '))
            out[n++] = *c > ' ' ? *c : ' ';
    out[n] = '\0';
}

void pt_checkpoint_libraries(char *buffer, size_t size)
{
    unsigned major, minor, release;
    char mpi[96];

    H5get_libversion(&major, &minor, &release);
    h5_mpi_version(mpi, sizeof mpi);
    snprintf(buffer, size, "HDF5 %u.%u.%u, %s", major, minor, release, mpi);
}
