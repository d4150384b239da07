# The user's torch as a target, altgrad_torch_sdk: asked from Python, without find_package(Torch),
# which wants a CUDA toolkit where the wheel is one for CUDA.
if(NOT ALTGRAD_PYTHON)
  find_program(ALTGRAD_PYTHON python HINTS ${PROJECT_SOURCE_DIR}/.venv/bin NO_DEFAULT_PATH)
endif()
if(NOT ALTGRAD_PYTHON)
  find_program(ALTGRAD_PYTHON NAMES python3)
endif()

# Importing torch takes seconds: asked again only when another Python is given.
if(ALTGRAD_PYTHON AND NOT "${ALTGRAD_TORCH_PYTHON}" STREQUAL "${ALTGRAD_PYTHON}")
  execute_process(
    COMMAND ${ALTGRAD_PYTHON} -c
      "import os, torch, torch.utils.cpp_extension as c; print(*c.include_paths(), sep=';'); print(os.path.join(os.path.dirname(torch.__file__), 'lib')); print(int(torch._C._GLIBCXX_USE_CXX11_ABI)); print(torch.__version__)"
    RESULT_VARIABLE torch_lacks OUTPUT_VARIABLE torch_facts ERROR_QUIET
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(torch_lacks EQUAL 0)
    string(REPLACE ";" "|" torch_facts "${torch_facts}")
    string(REPLACE "\n" ";" torch_facts "${torch_facts}")
    list(GET torch_facts 0 torch_include)
    string(REPLACE "|" ";" torch_include "${torch_include}")
    list(GET torch_facts 1 torch_lib)
    list(GET torch_facts 2 torch_abi)
    list(GET torch_facts 3 torch_version)
    set(ALTGRAD_TORCH_PYTHON ${ALTGRAD_PYTHON} CACHE INTERNAL "the Python that was asked")
    set(ALTGRAD_TORCH_INCLUDE ${torch_include} CACHE INTERNAL "torch's header folders")
    set(ALTGRAD_TORCH_LIB ${torch_lib} CACHE INTERNAL "torch's library folder")
    set(ALTGRAD_TORCH_ABI ${torch_abi} CACHE INTERNAL "torch's _GLIBCXX_USE_CXX11_ABI")
    set(ALTGRAD_TORCH_VERSION ${torch_version} CACHE INTERNAL "torch's version")
  else()
    unset(ALTGRAD_TORCH_PYTHON CACHE)
  endif()
endif()

if(NOT ALTGRAD_TORCH_PYTHON OR NOT EXISTS ${ALTGRAD_TORCH_LIB}/libtorch_cpu.so)
  message(STATUS "No torch in ${ALTGRAD_PYTHON}: the LibTorch optimizers are left out")
elseif(ALTGRAD_TORCH_VERSION VERSION_LESS 2.10)
  message(STATUS "torch ${ALTGRAD_TORCH_VERSION} has no torch_parallel_for (2.10 has): the LibTorch optimizers are left out")
elseif(NOT TARGET altgrad_torch_sdk)
  message(STATUS "LibTorch ${ALTGRAD_TORCH_VERSION} in ${ALTGRAD_TORCH_LIB}")
  add_library(altgrad_torch_sdk INTERFACE)
  target_include_directories(altgrad_torch_sdk SYSTEM INTERFACE ${ALTGRAD_TORCH_INCLUDE})
  target_compile_definitions(altgrad_torch_sdk INTERFACE
    _GLIBCXX_USE_CXX11_ABI=${ALTGRAD_TORCH_ABI})
  # Since version 18 clang mangles constrained templates as the C++ ABI now has it; torch was built
  # with a compiler that does not.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 18)
    target_compile_options(altgrad_torch_sdk INTERFACE -fclang-abi-compat=17)
  endif()
  # libtorch.so holds no symbol that we name: without the flag it is dropped,
  # and torch's CUDA kernels with it.
  target_link_libraries(altgrad_torch_sdk INTERFACE
    -Wl,--push-state,--no-as-needed
    ${ALTGRAD_TORCH_LIB}/libtorch.so ${ALTGRAD_TORCH_LIB}/libtorch_cpu.so ${ALTGRAD_TORCH_LIB}/libc10.so
    -Wl,--pop-state)
  # A module of Python finds torch loaded, wherever that is.
  target_link_options(altgrad_torch_sdk INTERFACE
    $<$<NOT:$<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>>:-Wl,-rpath,${ALTGRAD_TORCH_LIB}>)
endif()
