dnl PT_HDF5
dnl   HDF5 built with the MPI that PT_MPI found. Tried in order: HDF5_CFLAGS/HDF5_LIBS as given;
dnl   pkg-config hdf5-mpich or hdf5-openmpi, hdf5-mpi, hdf5; what `h5pcc -show` adds. Refused are a
dnl   serial HDF5 (H5_HAVE_PARALLEL) and one that brings another MPI library along.
dnl   Sets HDF5_CFLAGS, HDF5_LIBS, pt_hdf5_from. Comes after PT_MPI.
dnl SPDX-License-Identifier: Apache-2.0

dnl PT_HDF5_TRY(FROM, CFLAGS, LIBS): take these flags if a program links; no effect after a success.
AC_DEFUN([PT_HDF5_TRY], [
  AS_IF([test -z "$pt_hdf5_from"], [
    AC_MSG_CHECKING([for parallel HDF5 from $1])
    pt_save_CPPFLAGS=$CPPFLAGS; pt_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $MPI_CFLAGS $2"; LIBS="$MPI_LIBS $3 $MPI_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hdf5.h>
#ifndef H5_HAVE_PARALLEL
#error serial
#endif]], [[MPI_Init(0, 0);
        return (int)H5Pset_fapl_mpio(H5P_DEFAULT, MPI_COMM_SELF, MPI_INFO_NULL);]])],
      [pt_mpis=`ldd conftest$ac_exeext 2>/dev/null | grep -oE 'libmpi(ch)?\.so@<:@.0-9@:>@*' | sort -u | wc -l`
       AS_IF([test "$pt_mpis" -gt 1],
         [AC_MSG_RESULT([no, it belongs to another MPI])],
         [pt_hdf5_from="$1"; HDF5_CFLAGS="$2"; HDF5_LIBS="$3"; AC_MSG_RESULT([yes])])],
      [AC_MSG_RESULT([no])])
    CPPFLAGS=$pt_save_CPPFLAGS; LIBS=$pt_save_LIBS
  ])
])

AC_DEFUN([PT_HDF5], [
  AC_ARG_VAR([HDF5_CFLAGS], [compiler flags for parallel HDF5])
  AC_ARG_VAR([HDF5_LIBS], [linker flags for parallel HDF5])
  pt_hdf5_from=
  AS_IF([test -n "$HDF5_LIBS"], [PT_HDF5_TRY([given flags], [$HDF5_CFLAGS], [$HDF5_LIBS])])
  AS_IF([test -n "$PKG_CONFIG"], [
    for pt_pc in hdf5-$pt_mpi_kind hdf5-mpi hdf5; do
      AS_IF([$PKG_CONFIG --exists $pt_pc],
        [PT_HDF5_TRY([pkg-config $pt_pc], [`$PKG_CONFIG --cflags $pt_pc`],
          [`$PKG_CONFIG --libs $pt_pc`])])
    done
  ])
  AS_IF([test -z "$pt_hdf5_from"], [
    AC_PATH_PROGS([H5PCC], [h5pcc.$pt_mpi_kind h5pcc])
    AS_IF([test -n "$H5PCC"], [
      pt_h5_c= ; pt_h5_l= ; pt_h5_static=
      for pt_word in `$H5PCC -show 2>/dev/null`; do
        AS_CASE([$pt_word],
          [-I*], [pt_h5_c="$pt_h5_c $pt_word"],
          [/*.a], [pt_h5_static="$pt_h5_static $pt_word"],
        [-L*|-l*|-Wl,-rpath*], [pt_h5_l="$pt_h5_l $pt_word"])
      done
      PT_HDF5_TRY([$H5PCC], [$pt_h5_c], [$pt_h5_l -lhdf5])
      PT_HDF5_TRY([$H5PCC (static)], [$pt_h5_c], [$pt_h5_static $pt_h5_l])
    ])
  ])
  AS_IF([test -z "$pt_hdf5_from"], [AS_CASE([$pt_mpi_kind],
    [openmpi], [PT_MISSING([HDF5 built with Open MPI], [libhdf5-openmpi-dev], [hdf5+mpi ^openmpi])],
    [PT_MISSING([parallel HDF5], [libhdf5-mpich-dev], [hdf5+mpi])])])
])
