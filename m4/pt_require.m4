dnl PT_MISSING(WHAT, DEBIAN-PACKAGE, SPACK-PACKAGE)
dnl   Notes a missing dependency. configure goes on, so that one run names all that is missing.
dnl PT_REQUIRE_ALL
dnl   Stops with the list of what PT_MISSING noted; does nothing if the list is empty.
dnl PT_PKG(VARIABLE, PKG-CONFIG-NAME, WHAT, HEADER, FUNCTION, DEBIAN-PACKAGE, SPACK-PACKAGE)
dnl   Plain library: sets VARIABLE_CFLAGS and VARIABLE_LIBS, from pkg-config or else from
dnl   -lNAME, and checks that FUNCTION of HEADER links.
dnl SPDX-License-Identifier: Apache-2.0
AC_DEFUN([PT_MISSING], [
  AC_MSG_WARN([$1 not found])
  pt_missing="$pt_missing
  - $1: Debian package $2, Spack package $3"
])

AC_DEFUN([PT_REQUIRE_ALL], [
  AS_IF([test -n "$pt_missing"],
    [AC_MSG_ERROR([these dependencies are missing:$pt_missing
  (config.log says what was tried; jobs/setup.sh installs all of them on Debian)])])
])

AC_DEFUN([PT_PKG], [
  PKG_CHECK_MODULES([$1], [$2], [], [
    $1_CFLAGS=${$1_CFLAGS-}
    $1_LIBS=${$1_LIBS--l[]m4_bpatsubst([$2], [^lib])}
  ])
  pt_save_CPPFLAGS=$CPPFLAGS; pt_save_LIBS=$LIBS
  CPPFLAGS="$CPPFLAGS $$1_CFLAGS"; LIBS="$$1_LIBS $LIBS"
  AC_MSG_CHECKING([whether $3 works])
  AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <stdio.h>
#include <$4>]], [[return (void *)&$5 == 0;]])],
    [AC_MSG_RESULT([yes])],
    [AC_MSG_RESULT([no])
     PT_MISSING([$3], [$6], [$7])])
  CPPFLAGS=$pt_save_CPPFLAGS; LIBS=$pt_save_LIBS
])
