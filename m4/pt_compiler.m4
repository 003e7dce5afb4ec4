dnl PT_CHECK_CFLAG(FLAGS, IF-ACCEPTED, IF-NOT)
dnl   Does the compiler take FLAGS without a warning?
dnl PT_COMPILER_FLAGS
dnl   Sets PT_CFLAGS (always), PT_OPT_CFLAGS (-O2, or -O1 with --enable-debug), PT_KERNEL_OPT_CFLAGS
dnl   (src/ops/cpu), PT_CPPFLAGS, PT_LDFLAGS. Optimisation flags stay empty when the user gave CFLAGS.
dnl   -fno-trapping-math lets gcc turn comparisons into selects, so that kernels vectorise without
dnl   AVX; it changes no bits.
dnl   Contraction is off because an element's bits must not depend on its position in a loop.
dnl SPDX-License-Identifier: Apache-2.0
AC_DEFUN([PT_CHECK_CFLAG], [
  AC_MSG_CHECKING([whether $CC accepts $1])
  pt_save_CFLAGS=$CFLAGS
  CFLAGS="$CFLAGS -Werror $1"
  AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [pt_ok=yes], [pt_ok=no])
  CFLAGS=$pt_save_CFLAGS
  AC_MSG_RESULT([$pt_ok])
  AS_IF([test $pt_ok = yes], [$2], [$3])
])

AC_DEFUN([PT_COMPILER_FLAGS], [
  PT_CPPFLAGS="-D_GNU_SOURCE"
  PT_CFLAGS="-std=c11 -Wall -Wextra"
  PT_LDFLAGS=
  for pt_flag in -ffp-contract=off -fno-math-errno; do
    PT_CHECK_CFLAG([$pt_flag], [PT_CFLAGS="$PT_CFLAGS $pt_flag"],
      [AS_IF([test $pt_flag = -ffp-contract=off],
        [AC_MSG_ERROR([$CC cannot switch off floating-point contraction])])])
  done
  AS_IF([test "x$enable_debug" = xyes],
    [PT_OPT_CFLAGS=-O1; PT_KERNEL_OPT_CFLAGS=-O1
     PT_CPPFLAGS="$PT_CPPFLAGS -DPT_DEBUG=1"],
    [PT_OPT_CFLAGS=-O2; PT_KERNEL_OPT_CFLAGS=-O3])
  PT_CHECK_CFLAG([-fno-trapping-math],
    [PT_KERNEL_OPT_CFLAGS="$PT_KERNEL_OPT_CFLAGS -fno-trapping-math"])
  AS_IF([test -n "$pt_user_cflags"], [PT_OPT_CFLAGS=; PT_KERNEL_OPT_CFLAGS=])
  AS_IF([test "x$enable_werror" = xyes], [PT_CFLAGS="$PT_CFLAGS -Werror"])
  AS_IF([test "x$enable_sanitize" != xno], [
    pt_flag="-fsanitize=$enable_sanitize -fno-omit-frame-pointer -fno-sanitize-recover=all"
    AS_CASE([,$enable_sanitize,], [*,fuzzer-no-link,*],
      [pt_flag="$pt_flag -fsanitize-coverage-ignorelist=$ac_abs_confdir/regression/fuzz/uncovered"])
    PT_CHECK_CFLAG([$pt_flag],
      [PT_CFLAGS="$PT_CFLAGS $pt_flag"; PT_LDFLAGS="-fsanitize=$enable_sanitize"],
      [AC_MSG_ERROR([$CC does not accept -fsanitize=$enable_sanitize])])
    # clang tells of each loop that its checks keep from being vectorised.
    PT_CHECK_CFLAG([-Wno-pass-failed], [PT_CFLAGS="$PT_CFLAGS -Wno-pass-failed"])
  ])
  AC_MSG_CHECKING([whether the linker accepts --as-needed])
  pt_save_LDFLAGS=$LDFLAGS
  LDFLAGS="$LDFLAGS -Wl,--as-needed"
  AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])],
    [AC_MSG_RESULT([yes]); PT_LDFLAGS="$PT_LDFLAGS -Wl,--as-needed"], [AC_MSG_RESULT([no])])
  LDFLAGS=$pt_save_LDFLAGS
  AC_SUBST([PT_CPPFLAGS])
  AC_SUBST([PT_CFLAGS])
  AC_SUBST([PT_OPT_CFLAGS])
  AC_SUBST([PT_KERNEL_OPT_CFLAGS])
  AC_SUBST([PT_LDFLAGS])
])
