# The extension anabranch._C. It lands beside the Python sources, where both
# PYTHONPATH=python and the wheel find it; it links the runtime and loads the
# compiler library only when something is compiled.
set(ANABRANCH_PYTHON_EXECUTABLE "" CACHE FILEPATH "the Python with nanobind that the binding is for")
if(ANABRANCH_PYTHON_EXECUTABLE)
  set(Python_EXECUTABLE ${ANABRANCH_PYTHON_EXECUTABLE})
endif()
find_package(Python 3.11 COMPONENTS Interpreter OPTIONAL_COMPONENTS Development.Module)
if(Python_Interpreter_FOUND)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
    ERROR_QUIET RESULT_VARIABLE nanobind_missing)
endif()

function(anabranch_add_extension)
  if(NOT Python_Development.Module_FOUND OR nanobind_missing)
    message(WARNING "no Python with headers and nanobind: the binding is not "
      "built (set ANABRANCH_PYTHON_EXECUTABLE)")
    return()
  endif()
  if(NOT TARGET anabranch_runtime)
    message(STATUS "no runtime library yet: the binding is not built")
    return()
  endif()
  find_package(nanobind CONFIG REQUIRED PATHS ${nanobind_ROOT} NO_DEFAULT_PATH)
  nanobind_add_module(_C NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS ${ARGN})
  target_include_directories(_C PRIVATE
    ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/python/bindings)
  target_link_libraries(_C PRIVATE anabranch_runtime ${CMAKE_DL_LIBS})
  set_target_properties(_C PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${ANABRANCH_PYTHON_FOLDER}
    INSTALL_RPATH "$ORIGIN"
    BUILD_RPATH "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
endfunction()
