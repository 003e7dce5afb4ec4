dnl PT_MPI
dnl   MPI >= 3.1 for a plain C compiler: CC stays what the user chose (gcc, clang, or mpicc itself).
dnl   Tried in order: MPI_CFLAGS/MPI_LIBS as given; CC as it is; what `mpicc -show` adds;
dnl   pkg-config (mpich, ompi-c, mpi). Sets MPI_CFLAGS, MPI_LIBS, MPIEXEC, pt_mpi_from.
dnl   MPICC=PATH chooses the library; MPIEXEC=PATH the launcher of the tests.

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

AC_DEFUN([PT_MPI], [
  AC_ARG_VAR([MPICC], [MPI compiler wrapper that is asked for flags])
  AC_ARG_VAR([MPIEXEC], [MPI launcher, used by the tests])
  AC_ARG_VAR([MPI_CFLAGS], [compiler flags for MPI])
  AC_ARG_VAR([MPI_LIBS], [linker flags for MPI])
  pt_mpi_from=
  AS_IF([test -n "$MPI_LIBS"], [PT_MPI_TRY([given flags], [$MPI_CFLAGS], [$MPI_LIBS])])
  PT_MPI_TRY([$CC itself], [], [])
  AC_PATH_PROGS([MPICC], [mpicc.mpich mpicc])
  AS_IF([test -z "$pt_mpi_from" && test -n "$MPICC"], [
    pt_mpi_c= ; pt_mpi_l=
    for pt_word in `$MPICC -show 2>/dev/null`; do
      AS_CASE([$pt_word],
        [-I*], [pt_mpi_c="$pt_mpi_c $pt_word"],
        [-L*|-l*|-Wl,-rpath*|-Wl,--enable-new-dtags], [pt_mpi_l="$pt_mpi_l $pt_word"])
    done
    PT_MPI_TRY([$MPICC], [$pt_mpi_c], [$pt_mpi_l])
  ])
  AS_IF([test -n "$PKG_CONFIG"], [
    for pt_pc in mpich ompi-c mpi; do
      AS_IF([$PKG_CONFIG --exists $pt_pc],
        [PT_MPI_TRY([pkg-config $pt_pc], [`$PKG_CONFIG --cflags $pt_pc`],
          [`$PKG_CONFIG --libs $pt_pc`])])
    done
  ])
  AS_IF([test -z "$pt_mpi_from"], [PT_MISSING([MPI >= 3.1], [libmpich-dev], [mpich])])
  dnl The launcher beside the wrapper belongs to the same library: look there first.
  pt_path=$PATH
  AS_IF([test -n "$MPICC"], [pt_path=`AS_DIRNAME(["$MPICC"])`:$PATH])
  AC_PATH_PROGS([MPIEXEC], [mpiexec.mpich mpiexec.hydra mpiexec mpirun], [], [$pt_path])
  AS_IF([test -z "$MPIEXEC"], [PT_MISSING([mpiexec], [mpich], [mpich])])
])
