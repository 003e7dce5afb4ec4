dnl PT_MPI
dnl   MPI >= 3.1 for a plain C compiler: CC stays what the user chose (gcc, clang, or mpicc itself).
dnl   Tried in order: MPI_CFLAGS/MPI_LIBS as given; CC as it is; what `$MPICC -show` adds, or that of
dnl   mpicc.mpich or mpicc where MPICC is not given; pkg-config (mpich, ompi-c, mpi).
dnl   MPICC=NAME chooses the library, MPIEXEC=NAME the launcher of the tests; both must exist then.
dnl   Sets MPI_CFLAGS, MPI_LIBS, MPIEXEC, pt_mpi_from, pt_mpi_kind (mpich, openmpi, other).
dnl SPDX-License-Identifier: Apache-2.0

dnl PT_MPI_TRY(FROM, CFLAGS, LIBS): take these flags if a program links; no effect after a success.
AC_DEFUN([PT_MPI_TRY], [
  AS_IF([test -z "$pt_mpi_from"], [
    AC_MSG_CHECKING([for MPI >= 3.1 from $1])
    pt_save_CPPFLAGS=$CPPFLAGS; pt_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $2"; LIBS="$3 $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>
#if MPI_VERSION < 3 || (MPI_VERSION == 3 && MPI_SUBVERSION < 1)
#error too old
#endif]], [[MPI_Init(0, 0);]])],
      [pt_mpi_from="$1"; MPI_CFLAGS="$2"; MPI_LIBS="$3"; AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])])
    CPPFLAGS=$pt_save_CPPFLAGS; LIBS=$pt_save_LIBS
  ])
])

dnl PT_GIVEN_PROG(VARIABLE): a program the user named; its path, or an error that names it.
AC_DEFUN([PT_GIVEN_PROG], [
  AS_IF([test -n "$$1"], [
    pt_given=$$1
    AS_CASE([$pt_given], [*/*], [], [$1=`command -v "$pt_given"`])
    AS_IF([test ! -x "$$1"], [AC_MSG_ERROR([$1=$pt_given: no such program])])
  ])
])

dnl PT_MPI_KIND: whose mpi.h it is, as far as launchers and HDF5 differ.
AC_DEFUN([PT_MPI_KIND], [
  pt_mpi_kind=other
  AC_MSG_CHECKING([whose MPI it is])
  pt_save_CPPFLAGS=$CPPFLAGS
  CPPFLAGS="$CPPFLAGS $MPI_CFLAGS"
  AC_EGREP_CPP([pt_is_openmpi], [#include <mpi.h>
#ifdef OPEN_MPI
pt_is_openmpi
#endif], [pt_mpi_kind=openmpi],
    [AC_EGREP_CPP([pt_is_mpich], [#include <mpi.h>
#if defined MPICH_VERSION || defined MPICH_NAME
pt_is_mpich
#endif], [pt_mpi_kind=mpich])])
  CPPFLAGS=$pt_save_CPPFLAGS
  AC_MSG_RESULT([$pt_mpi_kind])
])

dnl PT_MPIEXEC: the first launcher that says it belongs to the library, those beside its wrapper
dnl   first. A foreign one would start every rank as a run of its own.
AC_DEFUN([PT_MPIEXEC], [
  AS_CASE([$pt_mpi_kind],
    [mpich], [pt_names="mpiexec.mpich mpiexec.hydra"; pt_says='HYDRA|MPICH|Intel'],
    [openmpi], [pt_names="mpiexec.openmpi"; pt_says='Open ?MPI|OpenRTE|PRRTE|prterun'],
    [pt_names= ; pt_says=.])
  pt_path=$PATH
  AS_IF([test -n "$MPICC"], [pt_path=`AS_DIRNAME(["$MPICC"])`:$PATH])
  AC_MSG_CHECKING([for the launcher of $pt_mpi_kind])
  pt_save_IFS=$IFS; IFS=:
  for pt_dir in $pt_path; do
    IFS=$pt_save_IFS
    for pt_name in $pt_names mpiexec mpirun; do
      AS_IF([test -z "$MPIEXEC" && test -x "$pt_dir/$pt_name" &&
        "$pt_dir/$pt_name" --version 2>&1 </dev/null | grep -E "$pt_says" >/dev/null],
        [MPIEXEC=$pt_dir/$pt_name])
    done
  done
  IFS=$pt_save_IFS
  AC_MSG_RESULT([${MPIEXEC:-none}])
])

AC_DEFUN([PT_MPI], [
  AC_ARG_VAR([MPICC], [MPI compiler wrapper that is asked for flags])
  AC_ARG_VAR([MPIEXEC], [MPI launcher, used by the tests])
  AC_ARG_VAR([MPI_CFLAGS], [compiler flags for MPI])
  AC_ARG_VAR([MPI_LIBS], [linker flags for MPI])
  PT_GIVEN_PROG([MPICC])
  PT_GIVEN_PROG([MPIEXEC])
  pt_mpi_from=
  AS_IF([test -n "$MPI_LIBS"], [PT_MPI_TRY([given flags], [$MPI_CFLAGS], [$MPI_LIBS])])
  AS_IF([test -z "$MPICC"], [PT_MPI_TRY([$CC itself], [], [])])
  AS_IF([test -z "$pt_mpi_from"], [
    AC_PATH_PROGS([MPICC], [mpicc.mpich mpicc])
    AS_IF([test -n "$MPICC"], [
      pt_mpi_c= ; pt_mpi_l=
      for pt_word in `$MPICC -show 2>/dev/null`; do
        AS_CASE([$pt_word],
          [-I*], [pt_mpi_c="$pt_mpi_c $pt_word"],
          [-L*|-l*|-Wl,-rpath*|-Wl,--enable-new-dtags], [pt_mpi_l="$pt_mpi_l $pt_word"])
      done
      PT_MPI_TRY([$MPICC], [$pt_mpi_c], [$pt_mpi_l])
    ])
  ])
  AS_IF([test -n "$PKG_CONFIG"], [
    for pt_pc in mpich ompi-c mpi; do
      AS_IF([$PKG_CONFIG --exists $pt_pc],
        [PT_MPI_TRY([pkg-config $pt_pc], [`$PKG_CONFIG --cflags $pt_pc`],
          [`$PKG_CONFIG --libs $pt_pc`])])
    done
  ])
  pt_mpi_kind=other
  AS_IF([test -z "$pt_mpi_from"],
    [PT_MISSING([MPI >= 3.1], [libmpich-dev], [mpich])],
    [PT_MPI_KIND
     AS_IF([test -z "$MPIEXEC"], [PT_MPIEXEC])
     AS_IF([test -z "$MPIEXEC"], [AS_CASE([$pt_mpi_kind],
       [openmpi], [PT_MISSING([mpiexec of Open MPI], [openmpi-bin], [openmpi])],
       [PT_MISSING([mpiexec], [mpich], [mpich])])])])
  AC_SUBST([pt_mpi_kind])
])
