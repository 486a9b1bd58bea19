# A hash of the sources that decide which plan a search by the model alone finds, as a function of the library's:
# plans that are kept on disk are one version's. As a script (cmake -P) it writes the file.
if(CMAKE_SCRIPT_MODE_FILE)
  file(STRINGS ${LIST} files)
  set(hashes "")
  foreach(file ${files})
    file(SHA256 ${file} hash)
    string(APPEND hashes ${hash})
  endforeach()
  string(SHA256 all "${hashes}")
  string(SUBSTRING ${all} 0 16 all)
  file(WRITE ${OUT} "#include \"compile/run/program_cache.hpp\"\n\n"
                    "const char* lathe::pipeline::search_sources() { return \"${all}\"; }\n")
  return()
endif()

# Whole rooms: all that src/search may include (tests/unit/floors_test.cpp), and src/compile, which says what is searched
# and for which target. unit/search_sources_test walks the real includes and objects to a file that is not here.
set(search_sources "")
foreach(folder include/lathe src/core src/view src/graph src/ast src/lower src/render src/search src/compile)
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${folder}/*.?pp ${folder}/*.def)
  list(APPEND search_sources ${files})
endforeach()
set(search_sources_list ${CMAKE_BINARY_DIR}/generated/search_sources.txt)
string(REPLACE ";" "\n" lines "${search_sources}")
file(GENERATE OUTPUT ${search_sources_list} CONTENT "${lines}\n")
add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/generated/search_sources.cpp
  COMMAND ${CMAKE_COMMAND} -DLIST=${search_sources_list} -DOUT=${CMAKE_BINARY_DIR}/generated/search_sources.cpp
          -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${search_sources} ${search_sources_list} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
target_sources(lathe_compile PRIVATE ${CMAKE_BINARY_DIR}/generated/search_sources.cpp)
