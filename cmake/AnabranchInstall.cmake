# `cmake --install build --component runtime`: what a C++ program needs to run
# packages, found again by find_package(Anabranch).
include(CMakePackageConfigHelpers)

function(anabranch_install_runtime)
  if(NOT TARGET anabranch_runtime)
    return()
  endif()
  set(place ${CMAKE_INSTALL_LIBDIR}/cmake/Anabranch)
  set_target_properties(anabranch_runtime PROPERTIES EXPORT_NAME runtime)
  install(TARGETS anabranch_runtime EXPORT AnabranchTargets COMPONENT runtime
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  if(TARGET anabranch-run)
    install(PROGRAMS $<TARGET_FILE:anabranch-run> COMPONENT runtime
      DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/anabranch COMPONENT runtime
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} PATTERN Compiler.h EXCLUDE)
  install(EXPORT AnabranchTargets NAMESPACE anabranch:: COMPONENT runtime
    FILE AnabranchConfig.cmake DESTINATION ${place})
  write_basic_package_version_file(
    ${CMAKE_BINARY_DIR}/AnabranchConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/AnabranchConfigVersion.cmake
    COMPONENT runtime DESTINATION ${place})
endfunction()
