dnl PT_DNNL
dnl   oneDNN 2.x, optional: products of bf16 matrices at twice the speed of fp32 where the processor
dnl   has AVX-512 BF16. --without-dnnl leaves it out. Sets DNNL_LIBS, pt_dnnl; defines HAVE_DNNL.
dnl SPDX-License-Identifier: Apache-2.0
AC_DEFUN([PT_DNNL], [
  AC_ARG_WITH([dnnl], [AS_HELP_STRING([--without-dnnl],
    [no oneDNN: bf16 matrices are multiplied in fp32])], [], [with_dnnl=auto])
  AC_ARG_VAR([DNNL_LIBS], [linker flags for oneDNN])
  pt_dnnl=no
  AS_IF([test "x$with_dnnl" != xno], [
    AC_MSG_CHECKING([for oneDNN 2])
    pt_dnnl_libs=${DNNL_LIBS--ldnnl}
    pt_save_LIBS=$LIBS
    LIBS="$pt_dnnl_libs $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <dnnl.h>]],
      [[dnnl_memory_desc_t x = {0}; dnnl_matmul_desc_t matmul;
        return dnnl_matmul_desc_init(&matmul, &x, &x, 0, &x);]])],
      [pt_dnnl=yes])
    LIBS=$pt_save_LIBS
    AC_MSG_RESULT([$pt_dnnl])
    AS_IF([test $pt_dnnl = yes],
      [DNNL_LIBS=$pt_dnnl_libs
       AC_DEFINE([HAVE_DNNL], [1], [oneDNN 2 multiplies bf16 matrices.])],
      [AS_IF([test "x$with_dnnl" = xyes],
        [PT_MISSING([oneDNN 2], [libdnnl-dev], [onednn@2])])])
  ])
])
