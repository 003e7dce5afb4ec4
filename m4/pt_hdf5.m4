dnl PT_HDF5
dnl   HDF5 built with MPI. Tried in order: HDF5_CFLAGS/HDF5_LIBS as given; pkg-config hdf5-mpich,
dnl   hdf5-mpi, hdf5; what `h5pcc -show` adds. A serial HDF5 is refused (H5_HAVE_PARALLEL).
dnl   Sets HDF5_CFLAGS, HDF5_LIBS, pt_hdf5_from. Comes after PT_MPI.

dnl PT_HDF5_TRY(FROM, CFLAGS, LIBS): take these flags if a program links; no effect after a success.
AC_DEFUN([PT_HDF5_TRY], [
  AS_IF([test -z "$pt_hdf5_from"], [
    AC_MSG_CHECKING([for parallel HDF5 from $1])
    pt_save_CPPFLAGS=$CPPFLAGS; pt_save_LIBS=$LIBS
    CPPFLAGS="$CPPFLAGS $2 $MPI_CFLAGS"; LIBS="$3 $MPI_LIBS $LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <hdf5.h>
#ifndef H5_HAVE_PARALLEL
#error serial
#endif]], [[return (int)H5Pset_fapl_mpio(H5P_DEFAULT, MPI_COMM_SELF, MPI_INFO_NULL);]])],
      [pt_hdf5_from="$1"; HDF5_CFLAGS="$2"; HDF5_LIBS="$3"; AC_MSG_RESULT([yes])],
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
    for pt_pc in hdf5-mpich hdf5-mpi hdf5; do
      AS_IF([$PKG_CONFIG --exists $pt_pc],
        [PT_HDF5_TRY([pkg-config $pt_pc], [`$PKG_CONFIG --cflags $pt_pc`],
          [`$PKG_CONFIG --libs $pt_pc`])])
    done
  ])
  AS_IF([test -z "$pt_hdf5_from"], [
    AC_PATH_PROGS([H5PCC], [h5pcc.mpich h5pcc])
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
  AS_IF([test -z "$pt_hdf5_from"],
    [PT_MISSING([parallel HDF5], [libhdf5-mpich-dev], [hdf5+mpi])])
])
