# How the compiler links LLVM and MLIR. One place, two modes, never mixed: a process that holds both
# libLLVM.so and LLVM archives works for a while, then hangs or frees twice.

# Debian keeps LLVM under its own prefix, which CMake does not search; llvm-config knows it.
find_program(LLVM_CONFIG NAMES llvm-config-22)
if(LLVM_CONFIG)
  execute_process(COMMAND ${LLVM_CONFIG} --prefix
    OUTPUT_VARIABLE llvm_prefix OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
# A process that maps 250 MB of shared libraries and relocates them takes 28 ms
# to start; with the archives, 4. The sanitizers want the shared ones.
if(ALTGRAD_SANITIZE)
  set(static_default OFF)
else()
  set(static_default ON)
endif()
option(ALTGRAD_STATIC_LLVM "Link LLVM's archives" ${static_default})
set(ZLIB_USE_STATIC_LIBS ${ALTGRAD_STATIC_LLVM})
find_package(MLIR 22.1 REQUIRED CONFIG HINTS ${llvm_prefix})
find_package(LLD 22.1 REQUIRED CONFIG HINTS ${llvm_prefix})
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} from ${MLIR_DIR}")

list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
set(MLIR_BINARY_DIR ${PROJECT_BINARY_DIR})   # unset in the package; add_mlir_doc writes below it
include(TableGen)
include(AddLLVM)
include(AddMLIR)
include(HandleLLVMOptions)                   # -fPIC, the linker, warnings

include_directories(SYSTEM ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
include_directories(${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/runtime/include)

add_library(altgrad_mlir INTERFACE)
if(ALTGRAD_STATIC_LLVM)
  include(${CMAKE_CURRENT_LIST_DIR}/StaticLlvm.cmake)
else()
  target_link_libraries(altgrad_mlir INTERFACE MLIR LLVM)
endif()

# MLIR's headers cost 2 to 17 s per file. With clang one precompiled header, instantiations included,
# brings a lowering down to under 1 s; with g++ 12 the file takes a minute and 1.1 GB, so it is off.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(pch_default ON)
else()
  set(pch_default OFF)
endif()
option(ALTGRAD_PCH "Precompile MLIR's headers" ${pch_default})
if(ALTGRAD_PCH)
  add_compile_options("SHELL:-Xclang -fno-pch-timestamp")   # of every user of the header
  add_library(altgrad_headers OBJECT ${PROJECT_SOURCE_DIR}/codegen/Headers.cpp)
  target_include_directories(altgrad_headers PRIVATE ${PROJECT_SOURCE_DIR})
  altgrad_precompile(altgrad_headers ${PROJECT_SOURCE_DIR}/codegen/Headers.h ${LLVM_CMAKE_DIR}/LLVMConfig.cmake
    HEADERS <codegen/Headers.h>)
  llvm_update_compile_flags(altgrad_headers)
endif()

# A library of the compiler: a plain archive with its MLIR dependencies.
function(altgrad_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_DEPENDS)
    add_dependencies(${name} ${ARG_DEPENDS})
  endif()
  target_link_libraries(${name} PUBLIC ${ARG_LINK} altgrad_mlir)
  llvm_update_compile_flags(${name})
  if(ALTGRAD_PCH)
    target_precompile_headers(${name} REUSE_FROM altgrad_headers)
  endif()
endfunction()

# An executable of the compiler.
function(altgrad_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} altgrad_mlir)
  llvm_update_compile_flags(${name})
endfunction()
