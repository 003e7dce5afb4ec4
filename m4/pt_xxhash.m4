dnl PT_XXHASH
dnl   xxHash, the checksum of files. Sets XXHASH_CFLAGS, XXHASH_LIBS.
dnl SPDX-License-Identifier: Apache-2.0
AC_DEFUN([PT_XXHASH], [
  PT_PKG([XXHASH], [libxxhash], [xxHash], [xxhash.h], [XXH64_update], [libxxhash-dev], [xxhash])
])
