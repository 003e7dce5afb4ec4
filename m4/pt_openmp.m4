dnl PT_OPENMP
dnl   Threads inside a rank. Sets OPENMP_CFLAGS, used for compiling and linking.
dnl SPDX-License-Identifier: Apache-2.0
AC_DEFUN([PT_OPENMP], [
  AC_OPENMP
  AS_IF([test -z "$OPENMP_CFLAGS"],
    [PT_MISSING([OpenMP for $CC], [libomp-dev (clang) or gcc], [llvm-openmp or gcc])])
])
