# ALTGRAD_VERSION, from the one file that has the number: the Python package's.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/python/altgrad/__init__.py ALTGRAD_VERSION REGEX "^__version__ = ")
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" ALTGRAD_VERSION "${ALTGRAD_VERSION}")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/python/altgrad/__init__.py)
