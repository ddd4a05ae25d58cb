#!/bin/sh
# Tells the desktop of new or removed menu entries, icons and file types, where
# it has tools for that:
#
#   refresh SHARE
#
# What the tools would leave where nothing of ours or others' is left is removed.
share=$1
if [ -d "$share/applications" ]; then
	if ls "$share"/applications/*.desktop >/dev/null 2>&1; then
		! command -v update-desktop-database >/dev/null 2>&1 || update-desktop-database -q "$share/applications" || true
	else
		rm -f "$share/applications/mimeinfo.cache"
	fi
fi
if [ -d "$share/mime" ]; then
	if ls "$share"/mime/packages/*.xml >/dev/null 2>&1; then
		! command -v update-mime-database >/dev/null 2>&1 || update-mime-database "$share/mime" >/dev/null 2>&1 || true
	else
		for made in aliases generic-icons globs globs2 icons magic mime.cache subclasses treemagic types version XMLnamespaces; do
			rm -f "$share/mime/$made"
		done
		rm -f "$share/mime/application/x-gguf.xml"
		rmdir "$share/mime/application" 2>/dev/null
	fi
fi
if [ -d "$share/icons/hicolor" ]; then
	if [ -n "$(find "$share/icons/hicolor" -type f ! -name icon-theme.cache | head -n 1)" ]; then
		! command -v gtk-update-icon-cache >/dev/null 2>&1 || gtk-update-icon-cache -q -t -f "$share/icons/hicolor" || true
	else
		rm -f "$share/icons/hicolor/icon-theme.cache"
	fi
fi
exit 0
