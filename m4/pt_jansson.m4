dnl PT_JANSSON
dnl   jansson reads and writes JSON. Sets JANSSON_CFLAGS, JANSSON_LIBS.
AC_DEFUN([PT_JANSSON], [
  PT_PKG([JANSSON], [jansson], [jansson], [jansson.h], [json_loadf], [libjansson-dev], [jansson])
])
