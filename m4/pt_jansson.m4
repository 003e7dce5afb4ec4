dnl PT_JANSSON
dnl   jansson reads and writes JSON. Sets JANSSON_CFLAGS, JANSSON_LIBS.
dnl SPDX-License-Identifier: Apache-2.0
AC_DEFUN([PT_JANSSON], [
  PT_PKG([JANSSON], [jansson], [jansson], [jansson.h], [json_loadf], [libjansson-dev], [jansson])
])
