# Objects that use a precompiled header, which ccache finds for every checkout: clang's file has paths in it, so ccache is
# given a sum of what it is made of (CCACHE_PCH_EXTSUM in tools/build.sh), and no command line has the header's path.
set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -Xclang -include-pch -Xclang <PCH_FILE>)

# altgrad_precompile(target FILE... HEADERS <header>...): whenever what the headers include is another, a FILE that is a header
# has other words, and one of a package another time.
function(altgrad_precompile target)
  cmake_parse_arguments(ARG "" "" "HEADERS" ${ARGN})
  set(sum ${CMAKE_CXX_COMPILER_VERSION} ${ARG_HEADERS})
  foreach(file ${ARG_UNPARSED_ARGUMENTS})
    if(file MATCHES "[.]h$")
      file(SHA256 ${file} word)
      set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    else()
      file(TIMESTAMP ${file} word)
    endif()
    list(APPEND sum ${word})
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx.pch.sum CONTENT "${sum}\n")
  target_compile_options(${target} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")
  target_precompile_headers(${target} PRIVATE ${ARG_HEADERS})
endfunction()
