# Sanitizers and libFuzzer's coverage in this project's own code, the runtime included: tools/sanitize.sh, tools/fuzz.sh.
option(ALTGRAD_SANITIZE "Build with ASan, UBSan and libFuzzer's coverage; needs clang" OFF)
if(ALTGRAD_SANITIZE)
  # vptr and function checks need the RTTI of what LLVM's objects hide.
  add_compile_options(-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize=vptr,function -fno-sanitize-recover=undefined)
  # The shared runtime: Python loads the same one before our library, and so do the compilers it starts.
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.asan-x86_64.so
    OUTPUT_VARIABLE ALTGRAD_ASAN OUTPUT_STRIP_TRAILING_WHITESPACE)
  cmake_path(GET ALTGRAD_ASAN PARENT_PATH asan_folder)
  # For tests in Python; throwing needs libstdc++ at start, and Python itself leaks.
  set(ALTGRAD_PRELOAD "LD_PRELOAD=${ALTGRAD_ASAN}:libstdc++.so.6"
    "ASAN_OPTIONS=detect_odr_violation=0:allow_user_poisoning=0:detect_leaks=0")
  add_link_options(-fsanitize=address,undefined -shared-libasan LINKER:-rpath,${asan_folder})
endif()
