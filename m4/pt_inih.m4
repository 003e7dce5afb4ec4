dnl PT_INIH
dnl   inih, the reader of configuration files. Sets INIH_CFLAGS, INIH_LIBS.
dnl SPDX-License-Identifier: Apache-2.0
AC_DEFUN([PT_INIH], [
  PT_PKG([INIH], [inih], [inih], [ini.h], [ini_parse_stream], [libinih-dev], [inih])
])
