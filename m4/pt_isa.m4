dnl PT_ISA
dnl   Which instruction set levels the CPU kernels are compiled for. Always `base`; on x86-64 also
dnl   `v3` (AVX2) and `v4` (AVX-512) where the compiler knows them. Sets PT_ISA_{BASE,V3,V4}_CFLAGS,
dnl   the conditionals PT_ISA_V3, PT_ISA_V4, and defines PT_HAVE_ISA_V3, PT_HAVE_ISA_V4.
dnl   The level is chosen at run time, so the compiling machine need not have any of them.
dnl SPDX-License-Identifier: Apache-2.0
AC_DEFUN([PT_ISA], [
  PT_ISA_BASE_CFLAGS= ; PT_ISA_V3_CFLAGS= ; PT_ISA_V4_CFLAGS=
  PT_ISA_V3_OK=no ; PT_ISA_V4_OK=no
  AC_MSG_CHECKING([whether the processor is x86-64])
  AC_COMPILE_IFELSE([AC_LANG_SOURCE([[
#ifndef __x86_64__
#error other processor
#endif
int pt_x86_64;]])], [pt_x86_64=yes], [pt_x86_64=no])
  AC_MSG_RESULT([$pt_x86_64])
  AS_IF([test $pt_x86_64 = yes], [
    PT_CHECK_CFLAG([-march=x86-64], [PT_ISA_BASE_CFLAGS=-march=x86-64])
    PT_CHECK_CFLAG([-march=x86-64-v3],
      [PT_ISA_V3_OK=yes; PT_ISA_V3_CFLAGS=-march=x86-64-v3])
    pt_v4="-march=x86-64-v4 -mprefer-vector-width=512"
    PT_CHECK_CFLAG([$pt_v4], [PT_ISA_V4_OK=yes; PT_ISA_V4_CFLAGS=$pt_v4])
  ])
  AS_IF([test $PT_ISA_V3_OK = yes],
    [AC_DEFINE([PT_HAVE_ISA_V3], [1], [Kernels exist for x86-64-v3 (AVX2, FMA).])])
  AS_IF([test $PT_ISA_V4_OK = yes],
    [AC_DEFINE([PT_HAVE_ISA_V4], [1], [Kernels exist for x86-64-v4 (AVX-512).])])
  AC_SUBST([PT_ISA_BASE_CFLAGS])
  AC_SUBST([PT_ISA_V3_CFLAGS])
  AC_SUBST([PT_ISA_V4_CFLAGS])
  AM_CONDITIONAL([PT_ISA_V3], [test $PT_ISA_V3_OK = yes])
  AM_CONDITIONAL([PT_ISA_V4], [test $PT_ISA_V4_OK = yes])
])
