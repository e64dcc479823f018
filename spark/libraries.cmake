# Copies the native library to `folder`, and with it the libraries that it needs and that are not those of
# every system. The file "files" there has their names.
file(GET_RUNTIME_DEPENDENCIES
  LIBRARIES "${library}"
  RESOLVED_DEPENDENCIES_VAR needed
  PRE_EXCLUDE_REGEXES "^(ld-linux.*|lib(c|dl|m|pthread|rt))\\.so")
get_filename_component(own "${library}" NAME)
set(names "${own}\n")
file(MAKE_DIRECTORY "${folder}")
file(COPY "${library}" DESTINATION "${folder}")
foreach(path IN LISTS needed)
  get_filename_component(name "${path}" NAME)
  file(REAL_PATH "${path}" real)
  file(COPY_FILE "${real}" "${folder}/${name}")
  string(APPEND names "${name}\n")
endforeach()
file(WRITE "${folder}/files" "${names}")
