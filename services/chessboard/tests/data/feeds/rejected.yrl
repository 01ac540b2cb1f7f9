<realty-feed>
  <offer internal-id="1">
    <type>аренда</type>
    <category>комната</category>
    <price>
      <value>6,500</value>
      <currency>ЁЁЁ</currency>
      <unit>кв. м</unit>
    </price>
    <area>
      <value>0,5</value>
      <unit>га</unit>
    </area>
    <rooms>много</rooms>
    <floor>12</floor>
    <floors-total>10</floors-total>
    <renovation>хорошее</renovation>
  </offer>
  <offer>
    <type>продажа</type>
    <category>гараж</category>
    <studio>1</studio>
    <price><value>500000</value><currency>RUB</currency></price>
    <area><value>13.255</value><unit>м2</unit></area>
    <living-space><value>20</value></living-space>
    <floor>цоколь</floor>
    <yandex-building-id>12, 13</yandex-building-id>
    <building-name>Сосны</building-name>
    <building-name>Ели</building-name>
    <ready-quarter>5</ready-quarter>
    <status>SOLD</status>
  </offer>
  <offer internal-id="1"><type>продажа</type></offer>
</realty-feed>
