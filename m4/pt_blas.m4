dnl PT_BLAS
dnl   Any CBLAS. --with-blas=auto|openblas|blis|mkl_rt|nvpl_blas_lp64_gomp|cblas (any other NAME is
dnl   tried as -lNAME). Sets BLAS_CFLAGS, BLAS_LIBS, pt_blas_name; defines PT_CBLAS_HEADER (use:
dnl   #include PT_CBLAS_HEADER), PT_BLAS_NAME, and HAVE_<f> for the function that sets its threads.
dnl SPDX-License-Identifier: Apache-2.0

dnl PT_BLAS_TRY(NAME, CFLAGS, LIBS, HEADER): take these if cblas_sgemm links; no effect after a success.
AC_DEFUN([PT_BLAS_TRY], [
  AS_IF([test -z "$pt_blas_name"], [
    AC_MSG_CHECKING([for cblas_sgemm in $1 ($4)])
    pt_save_CPPFLAGS=$CPPFLAGS; pt_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $2"; LIBS="$3 $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$4>]],
      [[float x = 1; cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 1, 1, 1, 1,
        &x, 1, &x, 1, 0, &x, 1);]])],
      [pt_blas_name="$1"; BLAS_CFLAGS="$2"; BLAS_LIBS="$3"; pt_blas_header="$4"
       AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])])
    CPPFLAGS=$pt_save_CPPFLAGS; LIBS=$pt_save_LIBS
  ])
])

AC_DEFUN([PT_BLAS], [
  AC_ARG_WITH([blas], [AS_HELP_STRING([--with-blas=NAME],
    [CBLAS library: auto, openblas, blis, mkl_rt, cblas, ... (default: auto)])],
    [], [with_blas=auto])
  AC_ARG_VAR([BLAS_CFLAGS], [compiler flags for CBLAS])
  AC_ARG_VAR([BLAS_LIBS], [linker flags for CBLAS])
  pt_blas_name=
  AS_IF([test -n "$BLAS_LIBS"],
    [PT_BLAS_TRY([given flags], [$BLAS_CFLAGS], [$BLAS_LIBS], [cblas.h])])
  AS_CASE([$with_blas],
    [auto|yes|no], [pt_list="openblas blis mkl_rt nvpl_blas_lp64_gomp cblas"],
    [pt_list=$with_blas])
  for pt_blas in $pt_list; do
    AS_IF([test -n "$PKG_CONFIG" && $PKG_CONFIG --exists $pt_blas],
      [PT_BLAS_TRY([$pt_blas], [`$PKG_CONFIG --cflags $pt_blas`],
        [`$PKG_CONFIG --libs $pt_blas`], [cblas.h])])
    AS_CASE([$pt_blas],
      [blis], [pt_header=blis/cblas.h],
      [mkl*], [pt_header=mkl_cblas.h],
      [nvpl*], [pt_header=nvpl_blas_cblas.h],
      [pt_header=cblas.h])
    PT_BLAS_TRY([$pt_blas], [], [-l$pt_blas], [$pt_header])
  done
  AS_IF([test -z "$pt_blas_name"],
    [PT_MISSING([CBLAS (--with-blas=$with_blas)], [libopenblas-dev], [openblas])],
    [AC_DEFINE_UNQUOTED([PT_CBLAS_HEADER], [<$pt_blas_header>], [Header that declares CBLAS.])
     AC_DEFINE_UNQUOTED([PT_BLAS_NAME], ["$pt_blas_name"], [CBLAS library found by configure.])
     pt_save_LIBS=$LIBS
     LIBS="$BLAS_LIBS $LIBS"
     AC_CHECK_FUNCS([openblas_set_num_threads bli_thread_set_num_threads MKL_Set_Num_Threads],
       [break])
     LIBS=$pt_save_LIBS])
])
